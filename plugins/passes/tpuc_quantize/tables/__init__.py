"""Calibration tables and the annotations in their remarks."""
