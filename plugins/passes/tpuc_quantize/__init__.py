"""Quantization: calibration, pre-quantized networks, remedies, accuracy analysis, mixed precision."""
