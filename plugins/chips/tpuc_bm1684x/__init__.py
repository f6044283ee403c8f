"""The Sophgo BM1684X chip: instructions, container, simulator and timing model."""
