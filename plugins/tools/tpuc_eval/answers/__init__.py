"""Explanations of classes and objects in `tpuc run`."""
