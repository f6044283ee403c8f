"""CV183x: instructions, files, simulator and timing."""
