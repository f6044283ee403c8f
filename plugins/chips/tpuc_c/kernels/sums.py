"""Sums of products of integers, and of floats: their biases, what they can reach, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import FunctionNode, Unsupported
from tpuc_ops.integers import integer_bounds

from tpuc_c.kernels.common import Array, Requantisation, check_constant_bias, point

MOST = (1 << 31) - 1
Factors = tuple[Sequence[int], Sequence[int], str, Sequence[float], str]
"""Multipliers, shifts, how they are applied, scales, and how results are rounded."""


def constant_bias(call: FunctionNode[Any], count: int, dtype: type[np.generic]) -> Array:
    """The bias of each channel, zeros where there is none; raises Unsupported where channels share some."""
    array = call.array(2)
    if array is None or not array.size:
        return np.zeros(count, dtype)
    if array.size not in (1, count):
        raise Unsupported(f"node '{call.node.name}': {call.op.name} on c: one bias per column or channel")
    return np.broadcast_to(array.reshape(-1), (count,)).astype(dtype)


def requantised(call: FunctionNode[Any], factors: Factors, count: int) -> Requantisation:
    """What becomes of integer sums; raises Unsupported for a bias that is computed."""
    check_constant_bias(call)
    op, result = call.op, call.node.result_type
    low, high = integer_bounds(result, op.do_relu, op.relu_limit)
    zero = 0 if getattr(op, "offset_in_bias", False) else point(result)
    return Requantisation(constant_bias(call, count, np.int32), *factors, zero, low, high)


def greatest_sum(filters: Array | None, bias: Array, magnitude: int = 0) -> int:
    """What a sum of `[oc, k]` filters, with numbers of that magnitude, and a bias can reach; without filters a bias."""
    sums = np.abs(bias.astype(np.int64))
    if filters is not None:
        sums = sums + np.abs(filters.astype(np.int64)).sum(axis=1) * magnitude
    return int(sums.max(initial=0))


def check_reach(call: FunctionNode[Any], reach: int) -> None:
    """Raise where a sum could leave 32 bits: the op would saturate it, the function does not."""
    if reach > MOST:
        raise Unsupported(
            f"node '{call.node.name}': {call.op.name} on c: its sums may reach {reach}, beyond 32 bits; quantise it "
            "with other ranges, or split it"
        )
