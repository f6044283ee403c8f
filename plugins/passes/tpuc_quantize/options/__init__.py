"""Tuning constants of quantization: frozen dataclasses, each field with what it was measured on or why it is so."""
