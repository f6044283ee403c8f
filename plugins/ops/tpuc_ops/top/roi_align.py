"""Pooling of image regions by samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Bool, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.products import matmul
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class RoiAlign(Op):
    """Pool regions of `x: [n, c, h, w]` to `output_height` by `output_width` cells, each the Avg or Max (`mode`) of
    samples.

    `rois: [count, 5]` are image number, then left, top, right, bottom; `spatial_scale` converts them to elements of x.
    A cell has `sampling_ratio` samples in each direction, or with 0 as many as it has elements, rounded up. Samples are
    bilinear, and 0 more than one element outside. With `align_corners`, positions count from the centers of elements.
    """

    name = "top.RoiAlign"
    output_height: I64
    output_width: I64
    sampling_ratio: I64 = 0
    spatial_scale: F64 = 1.0
    align_corners: Bool = True
    mode: Str = "Avg"

    def infer(self, operands: Types) -> Types:
        x, rois = operands[:2]
        if x.rank != 4 or rois.rank != 2 or rois.dims[1] != 5 or self.mode not in ("Avg", "Max"):
            raise ValueError(
                f"regions {show(rois.dims)} of images {show(x.dims)} in mode {self.mode}: rows of 5, 4 dimensions, "
                "and Avg or Max are needed"
            )
        return (x.shape_only().with_shape((rois.dims[0], x.dims[1], self.output_height, self.output_width)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, rois = as_float(operands[0]), as_float(operands[1])
        regions = [self._pooled(x[int(roi[0])], roi[1:] * np.float32(self.spatial_scale)) for roi in rois]
        return [np.stack(regions).astype(np.float32, copy=False)]

    def _pooled(self, image: Array, roi: Array) -> Array:
        """Pool one region; samples are separable along rows and columns."""
        half = 0.5 if self.align_corners else 0.0
        left, top, right, bottom = (float(edge) - half for edge in roi)
        rows, row_count = self._samples(top, bottom, self.output_height, image.shape[1])
        columns, column_count = self._samples(left, right, self.output_width, image.shape[2])
        if self.mode == "Avg":
            means = matmul(matmul(rows, image), columns.T)
            return _cells(means, row_count, column_count).mean((2, 4))
        low, high = ((_corners(matrix)) for matrix in (rows, columns))
        parts = [matmul(matmul(row, image), column.T) for row in low for column in high]
        return _cells(np.max(parts, 0), row_count, column_count).max((2, 4))

    def _samples(self, start: float, end: float, cells: int, extent: int) -> tuple[Array, int]:
        """Return bilinear weights `[cells * samples, extent]`, and the number of samples per cell."""
        span = end - start if self.align_corners else max(end - start, 1.0)
        count = self.sampling_ratio or max(math.ceil(span / cells), 1)
        places = start + (np.arange(cells * count) + 0.5) * (span / (cells * count))
        inside = (places >= -1) & (places <= extent)
        places = np.clip(places, 0, extent - 1)
        low = np.minimum(np.floor(places).astype(np.int64), extent - 1)
        matrix = np.zeros((places.size, extent))
        share = places - low
        np.add.at(matrix, (np.arange(places.size), low), 1 - share)
        np.add.at(matrix, (np.arange(places.size), np.minimum(low + 1, extent - 1)), share)
        return matrix * inside[:, None], count

    def flops(self, node: Node) -> int:
        return node.result_type.size * 8 * max(self.sampling_ratio, 1) ** 2


def _cells(samples: Array, rows: int, columns: int) -> Array:
    """Group samples by cell: `[c, cells, samples of a cell, cells, samples of a cell]`."""
    count, height, width = samples.shape
    return samples.reshape(count, height // rows, rows, width // columns, columns)


def _corners(matrix: Array) -> tuple[Array, Array]:
    """Return the weights of the lower and of the upper neighbor separately."""
    first = np.argmax(matrix != 0, 1)
    lower = np.zeros_like(matrix)
    places = np.arange(len(matrix))
    lower[places, first] = matrix[places, first]
    return lower, matrix - lower
