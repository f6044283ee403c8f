"""Split a table over all sensor values into the sum of one table for the upper and one for the lower bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tpuc_driver.api.host import LOW_BITS
from tpuc_ops.arrays import Array

HIGH_STEPS = 128
"""Number of smallest steps per step of an upper term's high byte."""
_SHIFTS = (6, 5, 4, 3)
_ROUNDS = 64
"""Number of rounds after which a system with a solution in small numbers has converged."""

Terms = NDArray[np.int64]


@dataclass(frozen=True)
class TableSum:
    """``half_up((upper[x >> LOW_BITS] + lower[x % 2**LOW_BITS]) / 2**shift)``, then plus a zero point, saturated."""

    upper: Terms
    lower: Terms
    shift: int

    @property
    def high(self) -> NDArray[np.int8]:
        """The signed high byte of the upper terms, in units of `HIGH_STEPS`."""
        return (self.upper // HIGH_STEPS).astype(np.int8)

    @property
    def rest(self) -> NDArray[np.uint8]:
        """The remainder of the upper terms."""
        return (self.upper % HIGH_STEPS).astype(np.uint8)


def sum_of_tables(entries: Array, point: int) -> TableSum | None:
    """The sum that reproduces every entry, in the smallest steps whose terms fit bytes; None where there is none."""
    rows = entries.astype(np.int64).reshape(-1, 1 << LOW_BITS) - point
    limits = np.iinfo(entries.dtype)
    lowest, highest = limits.min - point, limits.max - point
    for shift in _SHIFTS:
        half = 1 << shift - 1
        least = np.where(rows > lowest, rows * 2**shift - half, -(2**20))
        most = np.where(rows < highest, (rows + 1) * 2**shift - half - 1, 2**20)
        found = _between(least, most)
        if found is not None:
            return TableSum(*found, shift)
    return None


def _between(least: Terms, most: Terms) -> tuple[Terms, Terms] | None:
    """`upper` and `lower` with sums ``upper[i] + lower[j]`` between the bounds at each `[i, j]`, in a signed byte plus
    an unsigned one, and an unsigned byte; None where there are none. This is a system of difference constraints:
    raising violated terms step by step finds the smallest upper terms for the largest lower ones.
    """
    lower = np.full(least.shape[1], 255)
    upper = np.full(least.shape[0], -128 * HIGH_STEPS)
    for _ in range(_ROUNDS):
        raised = np.maximum(upper, (least - lower).max(axis=1))
        lowered = np.minimum(lower, (most - raised[:, None]).min(axis=0))
        if lowered.min() < 0 or raised.max() >= 128 * HIGH_STEPS:
            return None
        if (raised == upper).all() and (lowered == lower).all():
            return upper, lower
        upper, lower = raised, lowered
    return None
