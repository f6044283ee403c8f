"""Regions of images: bilinear samples along rows and columns as products with computed weight matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top

from tpuc_legalize.composer import MOVES, Composer, Part
from tpuc_legalize.sampling import Sampled
from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.RoiAlign)
class RoiAlignAny(Sampled[top.RoiAlign]):
    """Means of cells: weights of rows, and of columns, each averaged over the samples of a cell."""

    into = (
        *MOVES,
        top.Abs,
        top.Add,
        top.AddConst,
        top.Clip,
        top.Compare,
        top.MatMul,
        top.MaxConst,
        top.Mul,
        top.MulConst,
        top.Reduce,
        top.Sub,
        top.SubConst,
    )

    def refuse(self, node: LoweringNode[top.RoiAlign]) -> str | None:
        if node.op.mode != "Avg":
            return f"only mode Avg, this one is {node.op.mode}"
        if node.op.sampling_ratio < 1:
            return "a sampling_ratio of at least 1; with 0 the number of samples depends on the regions"
        if node.constants[0] is not None or node.constants[1] is not None:
            return "images and regions must be computed"
        return None

    def compose(self, node: LoweringNode[top.RoiAlign], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        x, rois = node.operands[:2]
        n, c, height, width = x.tensor.dims
        count = rois.tensor.dims[0]

        def column(index: int) -> Value:
            return do.slice(rois, (0, index), (count, index + 1))

        number, *edges = (column(index) for index in range(5))
        half = -0.5 if op.align_corners else 0.0
        left, upper, right, bottom = (
            do(top.AddConst(const_val=half), do(top.MulConst(const_val=op.spatial_scale), edge)) for edge in edges
        )
        down = self._weights(do, op, upper, bottom, op.output_height, height)
        across = self._weights(do, op, left, right, op.output_width, width)
        rows, columns = op.output_height, op.output_width
        if n > 1:
            own = _tent(do, number, n)
            apart = do.reshape(down, count, rows, 1, height)
            down = do(top.Mul(), apart, do.reshape(own, count, 1, n, 1), dims=(count, rows, n, height))
        down = do.reshape(down, count, rows, n * height)
        lines = do.reshape(do.permute(x, 0, 2, 1, 3), 1, n * height * c, width)
        across = do.reshape(across, 1, count * columns, width)
        dims = (1, n * height * c, count * columns)
        along = do(top.MatMul(right_transpose=True), lines, across, None, dims=dims)
        along = do.permute(do.reshape(along, n * height, c, count, columns), 2, 0, 1, 3)
        along = do.reshape(along, count, n * height, c * columns)
        cells = do(top.MatMul(), down, along, None, dims=(count, rows, c * columns))
        cells = do.reshape(cells, count, rows, c, columns)
        return [do.permute(cells, 0, 2, 1, 3, last=True)]

    def _weights(self, do: Composer, op: top.RoiAlign, start: Value, end: Value, cells: int, extent: int) -> Value:
        """`[regions, cells, extent]`: the weight of each element in the mean of a cell."""
        count, samples = start.tensor.dims[0], op.sampling_ratio
        span = do(top.Sub(), end, start)
        if not op.align_corners:
            span = do(top.MaxConst(const_val=1.0), span)
        shares = ((np.arange(cells * samples) + 0.5) / (cells * samples)).astype(np.float32)[None]
        places = do(top.Mul(), span, shares, dims=(count, cells * samples))
        places = do(top.Add(), places, start, dims=(count, cells * samples))
        inside = do(top.Clip(min=-1.0, max=float(extent)), places)
        inside = do(top.Compare(mode="Equal"), places, inside)
        weights = _tent(do, do(top.Clip(min=0.0, max=float(extent - 1)), places), extent)
        weights = do(top.Mul(), weights, do.reshape(inside, count, cells * samples, 1))
        if samples == 1:
            return do.reshape(weights, count, cells, extent)
        weights = do.reshape(weights, count * cells, samples, extent)
        mean = do(top.Reduce(axes=(1,), mode="ReduceMean", keepdims=False), weights)
        return do.reshape(mean, count, cells, extent)


def _tent(do: Composer, places: Value, extent: int) -> Value:
    """``max(1 - |place - i|, 0)`` for every element i: `[rows, places, extent]`."""
    rows, count = places.tensor.dims
    numbers = np.arange(extent, dtype=np.float32)[None, None]
    distance = do(top.Sub(), do.reshape(places, rows, count, 1), numbers, dims=(rows, count, extent))
    falling = do(top.SubConst(const_val=1.0, is_reverse=True), do(top.Abs(), distance))
    return do(top.MaxConst(const_val=0.0), falling)
