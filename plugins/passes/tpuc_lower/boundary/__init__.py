"""Inputs and outputs of a lowered network: types, casts, preprocessing."""
