"""`tpuc report`: one page about a compiled file."""
