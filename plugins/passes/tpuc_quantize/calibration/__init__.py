"""Calibration: candidate tables, their evaluation, and the search among them."""
