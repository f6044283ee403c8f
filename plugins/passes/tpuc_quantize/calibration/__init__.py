"""Calibration: candidates for thresholds, their evaluation, the search among them."""
