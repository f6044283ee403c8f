"""Find the lowering of each op, cast its operands, and rebuild the module."""
