"""Regions of images: bilinear samples along rows and columns are products with matrices of computed weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.compare import Compare
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.roi_align import RoiAlign
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst

from tpuc_legalise.composer import MOVES, Composer, Part
from tpuc_legalise.sampling import Sampled
from tpuc_legalise.table import TABLE


@TABLE.legalises(RoiAlign)
class RoiAlignAny(Sampled[RoiAlign]):
    """Means of cells: weights of rows, and those of columns, each averaged over the samples of a cell."""

    into = (*MOVES, Abs, Add, AddConst, Clip, Compare, MatMul, MaxConst, Mul, MulConst, Reduce, Sub, SubConst)

    def refuse(self, node: LoweringNode) -> str | None:
        op: RoiAlign = node.op
        if op.mode != "Avg":
            return f"only mode Avg, this one is {op.mode}"
        if op.sampling_ratio < 1:
            return "a sampling_ratio of at least 1; with 0 the number of samples depends on the regions"
        if node.constants[0] is not None or node.constants[1] is not None:
            return "images and regions must be computed"
        return None

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: RoiAlign = node.op
        x, rois = node.operands[:2]
        n, c, height, width = x.tensor.dims
        count = rois.tensor.dims[0]

        def column(index: int) -> Value:
            part = Slice(offset=(0, index), steps=(1, 1), ends=(count, index + 1))
            return do(part, rois, None, None, None, dims=(count, 1))

        number, *edges = (column(index) for index in range(5))
        half = -0.5 if op.align_corners else 0.0
        left, top, right, bottom = (
            do(AddConst(const_val=half), do(MulConst(const_val=op.spatial_scale), edge)) for edge in edges
        )
        down = self._weights(do, op, top, bottom, op.output_height, height)
        across = self._weights(do, op, left, right, op.output_width, width)
        rows, columns = op.output_height, op.output_width
        if n > 1:
            own = _tent(do, number, n)
            apart = do.reshape(down, count, rows, 1, height)
            down = do(Mul(), apart, do.reshape(own, count, 1, n, 1), dims=(count, rows, n, height))
        down = do.reshape(down, count, rows, n * height)
        lines = do.reshape(do.permute(x, 0, 2, 1, 3), 1, n * height * c, width)
        across = do.reshape(across, 1, count * columns, width)
        dims = (1, n * height * c, count * columns)
        along = do(MatMul(right_transpose=True), lines, across, None, dims=dims)
        along = do.permute(do.reshape(along, n * height, c, count, columns), 2, 0, 1, 3)
        along = do.reshape(along, count, n * height, c * columns)
        cells = do(MatMul(), down, along, None, dims=(count, rows, c * columns))
        cells = do.reshape(cells, count, rows, c, columns)
        return [do.permute(cells, 0, 2, 1, 3, last=True)]

    def _weights(self, do: Composer, op: RoiAlign, start: Value, end: Value, cells: int, extent: int) -> Value:
        """`[regions, cells, extent]`: what each element adds to the mean of a cell."""
        count, samples = start.tensor.dims[0], op.sampling_ratio
        span = do(Sub(), end, start)
        if not op.align_corners:
            span = do(MaxConst(const_val=1.0), span)
        shares = ((np.arange(cells * samples) + 0.5) / (cells * samples)).astype(np.float32)[None]
        places = do(Mul(), span, shares, dims=(count, cells * samples))
        places = do(Add(), places, start, dims=(count, cells * samples))
        inside = do(Clip(min=-1.0, max=float(extent)), places)
        inside = do(Compare(mode="Equal"), places, inside)
        weights = _tent(do, do(Clip(min=0.0, max=float(extent - 1)), places), extent)
        weights = do(Mul(), weights, do.reshape(inside, count, cells * samples, 1))
        if samples == 1:
            return do.reshape(weights, count, cells, extent)
        weights = do.reshape(weights, count * cells, samples, extent)
        mean = do(Reduce(axes=(1,), mode="ReduceMean", keepdims=False), weights)
        return do.reshape(mean, count, cells, extent)


def _tent(do: Composer, places: Value, extent: int) -> Value:
    """``max(1 - |place - i|, 0)`` for every element i: `[rows, places, extent]`."""
    rows, count = places.tensor.dims
    numbers = np.arange(extent, dtype=np.float32)[None, None]
    distance = do(Sub(), do.reshape(places, rows, count, 1), numbers, dims=(rows, count, extent))
    falling = do(SubConst(const_val=1.0, is_reverse=True), do(Abs(), distance))
    return do(MaxConst(const_val=0.0), falling)
