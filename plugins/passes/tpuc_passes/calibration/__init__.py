"""Calibration: streaming statistics, threshold methods, the calibration table and the sample sources."""
