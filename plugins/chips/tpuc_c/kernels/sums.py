"""Integer and float sums of products: their biases, their range, and their requantization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import FunctionNode, Unsupported
from tpuc_ops.integers import integer_bounds

from tpuc_c.kernels.common import Array, Requantization, check_constant_bias, point

MOST = (1 << 31) - 1
Factors = tuple[Sequence[int], Sequence[int], str, Sequence[float], str]
"""Multipliers, shifts, quantization mode, scales, and rounding mode."""


def constant_bias(call: FunctionNode[Any], count: int, dtype: type[np.generic]) -> Array:
    """The bias of each channel, zeros where there is none; raises Unsupported for another number of values."""
    array = call.array(2)
    if array is None or not array.size:
        return np.zeros(count, dtype)
    if array.size not in (1, count):
        raise Unsupported(f"node '{call.node.name}': {call.op.name} on c: one bias per column or channel")
    return np.broadcast_to(array.reshape(-1), (count,)).astype(dtype)


def requantized(call: FunctionNode[Any], factors: Factors, count: int) -> Requantization:
    """The requantization of integer sums; raises Unsupported for a computed bias."""
    check_constant_bias(call)
    op, result = call.op, call.node.result_type
    low, high = integer_bounds(result, op.do_relu, op.relu_limit)
    zero = 0 if getattr(op, "offset_in_bias", False) else point(result)
    return Requantization(constant_bias(call, count, np.int32), *factors, zero, low, high)


def greatest_sum(filters: Array | None, bias: Array, magnitude: int = 0) -> int:
    """Upper bound of the magnitude of sums with filters `[oc, k]`, operands of `magnitude`, and a bias; without
    filters, of the bias.
    """
    sums = np.abs(bias.astype(np.int64))
    if filters is not None:
        sums = sums + np.abs(filters.astype(np.int64)).sum(axis=1) * magnitude
    return int(sums.max(initial=0))


def check_reach(call: FunctionNode[Any], reach: int) -> None:
    """Raise Unsupported where a sum could exceed 32 bits: the op saturates, but the function does not."""
    if reach > MOST:
        raise Unsupported(
            f"node '{call.node.name}': {call.op.name} on c: its sums may reach {reach}, beyond 32 bits; quantize it "
            "with other ranges, or split it"
        )
