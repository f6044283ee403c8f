"""Quantisation that a network states by casts, as types of values: the patterns of `absorb-quantisation`."""
