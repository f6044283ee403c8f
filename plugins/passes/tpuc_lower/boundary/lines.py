"""Replace tables by integer products and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

SHIFTS = range(4, 17)
"""Shifts of products whose results fit 32 bits."""


def line_through(table: Array, point: int) -> tpu.AddConst | None:
    """The integer product and sum that reproduce every entry of a table; None where the entries lie on no such line."""
    entries, limits = table.astype(np.int64), np.iinfo(table.dtype)
    inner = np.flatnonzero((entries > entries.min()) & (entries < entries.max()))
    if len(inner) < 2:
        return None
    low, high = _slopes(inner, entries[inner])
    for shift in SHIFTS:
        for multiplier in _between(low * 2**shift, high * 2**shift):
            # The sum lies between these where halves are rounded up to the entry; saturated entries have one bound.
            rest = (entries - point) * 2**shift - 2 ** (shift - 1) - np.arange(256) * multiplier
            least = int(rest[entries > limits.min].max(initial=-(2**29)))
            most = int((rest + 2**shift - 1)[entries < limits.max].min(initial=2**29))
            if least <= most:
                return tpu.AddConst(const_val=float((least + most) // 2), multiplier=multiplier, rshift=shift)
    return None


def _slopes(places: Array, entries: Array) -> tuple[float, float]:
    """Bounds of the slopes of lines within one half of every entry."""
    first, second = np.triu_indices(len(places), 1)
    runs, rises = places[second] - places[first], entries[second] - entries[first]
    return float(((rises - 1) / runs).max()), float(((rises + 1) / runs).min())


def _between(low: float, high: float) -> Sequence[int]:
    """At most eight integers between two bounds, the middle ones first."""
    found = range(math.ceil(low), math.floor(high) + 1)
    return sorted(found, key=lambda number: abs(2 * number - low - high))[:8]
