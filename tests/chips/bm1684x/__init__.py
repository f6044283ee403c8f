"""BM1684X: instructions, files, simulator and timing."""
