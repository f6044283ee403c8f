"""Quantization: calibration, remedies, accuracy analysis, mixed precision."""
