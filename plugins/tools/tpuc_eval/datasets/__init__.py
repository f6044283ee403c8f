"""Labelled data in the forms that people keep them in."""
