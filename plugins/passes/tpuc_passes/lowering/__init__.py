"""TOP to TPU: finds each op's lowering, gives it operands of the type it wants, and rebuilds the module."""
