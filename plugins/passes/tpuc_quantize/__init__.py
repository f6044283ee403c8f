"""Quantization: statistics, calibration, its tables, and remedies for single ops."""
