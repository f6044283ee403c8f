"""TOP to TPU: finds the lowering of each op, gives it operands of the type it wants, and rebuilds the module."""
