"""Compute live ranges of values in DDR, and find values that can share an address."""
