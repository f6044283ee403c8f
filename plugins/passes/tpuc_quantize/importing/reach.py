"""How far results reach that are an operand's values, but for slopes, bounds and pads of the op itself."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Module, Operation
from tpuc_ops import top


def stays_within(module: Module, operation: Operation, low: float, high: float) -> bool:
    """Does the op make no results outside of a range, 0 included, from values within it?"""
    low, high = min(low, 0.0), max(high, 0.0)
    return all(low <= value <= high for value in made_of_bounds(module, operation, low, high))


def made_of_bounds(module: Module, operation: Operation, low: float, high: float) -> Sequence[float]:
    """What the op adds to its operand's values where these lie between `low`, below 0, and `high`."""
    match operation.op:
        case top.LeakyRelu(alpha=alpha):
            return (alpha * low,)
        case top.PRelu():
            slopes = module.constant(operation.operands[1])
            return () if slopes is None else (float(slopes.min()) * low, float(slopes.max()) * low)
        case top.MaxConst(const_val=number):
            return (max(number, low),)
        case top.MinConst(const_val=number):
            return (min(number, high),)
        case top.Pad(mode="constant", val=number):
            return (number,)
        case _:
            return ()
