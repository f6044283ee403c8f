"""One page about a compiled file, for a colleague: `tpuc report`."""
