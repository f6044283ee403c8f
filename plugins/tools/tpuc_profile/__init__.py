"""`tpuc profile`: where the time and the memory of a compiled file go."""
