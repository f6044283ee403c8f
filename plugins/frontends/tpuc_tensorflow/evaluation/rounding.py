"""Fake quantization as in TensorFlow's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Operation
from tpuc_ops.arrays import Array

from tpuc_tensorflow.evaluation.facts import fact

WIDEST = 16


@dataclass(frozen=True, eq=False)
class Grid:
    """``(clip(round(x / scale) + zero, low, high) - zero) * scale``, halves rounded up."""

    scale: Array
    zero: Array
    low: int
    high: int

    def rounded(self, x: Array) -> Array:
        """Round to the nearest number of the grid."""
        steps = np.floor(x.astype(np.float64) / self.scale + 0.5) + self.zero
        return ((np.clip(steps, self.low, self.high) - self.zero) * self.scale).astype(x.dtype)


def grid_of(low: Array, high: Array, bits: int, narrow: bool) -> Grid:
    """Return the grid between two bounds, which are moved so that 0 is on it. Raises ValueError for bounds without
    a grid.
    """
    if not 2 <= bits <= WIDEST:
        raise ValueError(f"it rounds to {bits} bits, but 2 to {WIDEST} are supported")
    if not np.all(low < high) or not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("its lower bound is not below its upper one")
    least, most = int(narrow), (1 << bits) - 1
    scale = (high.astype(np.float32) - low.astype(np.float32)) / np.float32(most - least)
    from_low = least - low.astype(np.float32) / scale
    zero = np.where(from_low < least, least, np.where(from_low > most, most, np.floor(from_low + np.float32(0.5))))
    return Grid(scale.astype(np.float64), zero.astype(np.float64), least, most)


def _args(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    low, high = (np.float32(fact(operation, name, value)) for name, value in (("min", -6.0), ("max", 6.0)))
    return [_grid(operation, np.asarray(low), np.asarray(high)).rounded(operands[0])]


def _vars(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, low, high = operands
    return [_grid(operation, low, high).rounded(x)]


def _grid(operation: Operation, low: Array, high: Array) -> Grid:
    return grid_of(low, high, fact(operation, "num_bits", 8), bool(fact(operation, "narrow_range", False)))


ROUNDINGS: Mapping[str, Callable[[Operation, Sequence[Array]], Sequence[Array]]] = {
    "FakeQuantWithMinMaxArgs": _args,
    "FakeQuantWithMinMaxVars": _vars,
    "FakeQuantWithMinMaxVarsPerChannel": _vars,
}
