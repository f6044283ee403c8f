"""Sophgo BM1684X: instructions, container, simulator and timing model."""
