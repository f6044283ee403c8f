"""Whole networks through the whole pipeline."""
