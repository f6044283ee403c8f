"""Tuning constants of quantization: frozen dataclasses, each field with its evidence or its reason."""
