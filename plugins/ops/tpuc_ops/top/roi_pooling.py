"""Maximum pooling of image regions on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class ROIPooling(Op):
    """For each region `[r, 5]` (image, left, top, right, bottom; ends included), pool the maxima of `x: [n, c, h, w]`
    on a grid of `pooled_h` by `pooled_w` parts: `[r, c, pooled_h, pooled_w]`.

    Corners times `spatial_scale` are rounded to elements, half away from zero. Parts may overlap; empty ones are 0.
    """

    name = "top.ROIPooling"
    pooled_h: I64
    pooled_w: I64
    spatial_scale: F64

    def infer(self, operands: Types) -> Types:
        x, regions = operands
        if min(self.pooled_h, self.pooled_w) < 1 or x.rank != 4 or regions.rank < 2:
            raise ValueError(
                "a grid of at least 1x1 over images of 4 dimensions is needed, this one is "
                f"{self.pooled_h}x{self.pooled_w} over {show(x.dims)}"
            )
        if regions.dims[1] != 5 or regions.size != regions.dims[0] * 5:
            raise ValueError(f"regions are rows of 5 numbers, these are {show(regions.dims)}")
        return (x.shape_only().with_shape((regions.dims[0], x.dims[1], self.pooled_h, self.pooled_w)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, regions = (as_float(operand) for operand in operands)
        result = np.zeros(node.result_type.dims, np.float32)
        for row, (image, *corners) in zip(result, regions.reshape(-1, 5), strict=True):
            scaled = np.array(corners) * np.float32(self.spatial_scale)
            left, top, right, bottom = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
            source = x[int(image)]
            for i, rows in enumerate(_parts(top, bottom, self.pooled_h, x.shape[2])):
                for j, columns in enumerate(_parts(left, right, self.pooled_w, x.shape[3])):
                    part = source[:, rows, columns]
                    row[:, i, j] = part.max((1, 2)) if part.size else 0
        return [result]

    def flops(self, node: Node) -> int:
        return node.result_type.size


def _parts(first: int, last: int, count: int, extent: int) -> list[slice]:
    """Return the range of each part along one axis."""
    size = np.float32(max(last - first + 1, 1)) / np.float32(count)
    starts = np.floor(np.arange(count, dtype=np.float32) * size).astype(np.int64) + first
    stops = np.ceil((np.arange(count, dtype=np.float32) + 1) * size).astype(np.int64) + first
    return [slice(*pair) for pair in zip(starts.clip(0, extent), stops.clip(0, extent), strict=True)]
