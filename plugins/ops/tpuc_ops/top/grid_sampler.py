"""Sampling of images at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import GridMode, GridPadding
from tpuc_ops.sampling import picked
from tpuc_ops.shapes import show

_MODES = ("nearest", "bilinear", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@dataclass(frozen=True)
class GridSampler(Op):
    """Sample `x: [n, c, h, w]` (or with a depth) at positions `grid: [n, oh, ow, 2]` from -1 to 1, last dimension
    first.

    With `align_corners`, -1 and 1 are the centers of the outermost elements, else their outer edges. `mode`: nearest
    (ties to even), bilinear (trilinear with a depth), or bicubic (a = -0.75). `padding_mode`: outside are zeros, the
    border, or the image reflected at -1 and 1.
    """

    name = "top.GridSampler"
    mode: GridMode = "bilinear"
    padding_mode: GridPadding = "zeros"
    align_corners: Bool = False

    def infer(self, operands: Types) -> Types:
        x, grid = operands
        if self.mode not in _MODES or self.padding_mode not in _PADDINGS:
            raise ValueError(f"mode {self.mode} with padding_mode {self.padding_mode} is not known")
        if x.rank not in (4, 5) or grid.rank != x.rank or grid.dims[-1] != x.rank - 2 or grid.dims[0] != x.dims[0]:
            raise ValueError(f"grid {show(grid.dims)} does not fit {show(x.dims)}")
        if self.mode == "bicubic" and x.rank != 4:
            raise ValueError("bicubic is for two dimensions only")
        return (x.shape_only().with_shape((*x.dims[:2], *grid.dims[1:-1])),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, grid = as_float(operands[0]), as_float(operands[1])
        sizes = x.shape[2:]
        places = [self._place(grid[..., -1 - axis], size) for axis, size in enumerate(sizes)]
        if self.mode == "nearest":
            return [
                self._picked(x, [np.rint(self._folded(place, size)) for place, size in zip(places, sizes, strict=True)])
            ]
        taps = [self._taps(place, size) for place, size in zip(places, sizes, strict=True)]
        result = np.zeros((*x.shape[:2], *places[0].shape[1:]), np.float32)
        for chosen in np.ndindex(*(len(axis) for axis in taps)):
            picks: list[tuple[Array, Array]] = [axis[index] for axis, index in zip(taps, chosen, strict=True)]
            share = np.prod([weight for _, weight in picks], axis=0)
            result += self._picked(x, [tap for tap, _ in picks]) * share[:, None]
        return [result]

    def _place(self, grid: Array, size: int) -> Array:
        if self.align_corners:
            return (grid + 1) / 2 * (size - 1)
        return ((grid + 1) * size - 1) / 2

    def _taps(self, place: Array, size: int) -> list[tuple[Array, Array]]:
        """Return integer positions along one dimension, each with its weight."""
        if self.mode == "bilinear":
            place = self._folded(place, size)
            low = np.floor(place)
            return [(low, low + 1 - place), (low + 1, place - low)]
        low = np.floor(place)
        return [(low + tap, _cubic(np.abs(place - low - tap))) for tap in (-1, 0, 1, 2)]

    def _picked(self, x: Array, places: list[Array]) -> Array:
        if self.padding_mode != "zeros":
            folded = [self._folded(place, size) for place, size in zip(places, x.shape[2:], strict=True)]
            places = [np.clip(np.rint(place), 0, size - 1) for place, size in zip(folded, x.shape[2:], strict=True)]
        return picked(x, places)

    def _folded(self, place: Array, size: int) -> Array:
        """Move positions into the image, unless it is surrounded by zeros."""
        if self.padding_mode == "zeros":
            return place
        if self.padding_mode == "border":
            return np.clip(place, 0, size - 1)
        low, high = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return np.zeros_like(place)
        offset = np.mod(np.abs(place - low), 2 * span)
        return np.clip(low + np.minimum(offset, 2 * span - offset), 0, size - 1)

    def flops(self, node: Node) -> int:
        rank = node.operand_types[0].rank - 2
        taps = {"nearest": 1, "bilinear": 2, "bicubic": 4}[self.mode] ** rank
        return node.result_type.size * taps * 2


def _cubic(x: Array) -> Array:
    """Return the weight of an element at distance x < 2, with a = -0.75."""
    near = (1.25 * x - 2.25) * x * x + 1
    far = -0.75 * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0)).astype(np.float32)
