"""`tpuc profile`: time and memory of a compiled file."""
