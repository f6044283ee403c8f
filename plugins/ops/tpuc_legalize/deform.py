"""Deformable convolution: sample the taps first, then sum them by a plain convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top

from tpuc_legalize.composer import MOVES, Composer, Part
from tpuc_legalize.sampling import AXES, Axis, Sampled, sampled, table_of_places
from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.DeformConv2D)
class DeformConvAny(Sampled[top.DeformConv2D]):
    """Taps lie along the rows of an image whose columns are the positions of the result."""

    into = (*MOVES, top.Add, top.Concat, top.Conv, top.Gather, top.Mul, *AXES)

    def refuse(self, node: LoweringNode) -> str | None:
        if node.constants[1] is None:
            return "the filter must be a constant"
        if node.constants[0] is not None or node.constants[2] is not None:
            return "images and offsets must be computed"
        return None

    def compose(self, node: LoweringNode[top.DeformConv2D], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        x, offset = node.operands[0], node.operands[2]
        filters, bias = node.constants[1], node.constants[4] if len(node.constants) > 4 else None
        assert filters is not None
        n, c, height, width = x.tensor.dims
        (oh, ow), taps, groups = node.result_type.dims[2:], op.window().taps, op.deform_group
        moves = do.reshape(offset, n, groups, taps * 2, oh * ow)
        mask = node.operands[3] if op.use_mask else None
        columns: list[Value] = []
        for group in range(groups):
            channels = _part(do, x, 1, group, groups)
            places = [self._places(do, op, _part(do, moves, 1, group, groups), way, (oh, ow)) for way in (0, 1)]
            axes = [
                Axis(do, size, "zeros", align_corners=True).taps("bilinear", place)
                for place, size in zip(places, (height, width), strict=True)
            ]
            values = sampled(do, table_of_places(do, channels), (height, width), axes)
            if mask is not None:
                factors = _part(do, do.reshape(mask, n, groups, taps, oh * ow), 1, group, groups)
                values = do(top.Mul(), values, do.reshape(factors, n, taps * oh * ow, 1))
            values = do.permute(do.reshape(values, n, taps, oh * ow, c // groups), 0, 3, 1, 2)
            columns.append(values)
        whole = columns[0] if groups == 1 else do(top.Concat(axis=1), *columns, dims=(n, c, taps, oh * ow))
        conv = top.Conv(kernel_shape=(taps, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=op.group)
        flat = np.ascontiguousarray(filters.reshape(*filters.shape[:2], taps, 1))
        result = do(conv, whole, flat, None if bias is None else bias.reshape(-1))
        return [do.reshape(result, *node.result_type.dims, last=True)]

    def _places(self, do: Composer, op: top.DeformConv2D, moves: Value, way: int, size: tuple[int, int]) -> Value:
        """`[n, taps * places]`: rows (0) or columns (1) of the taps, with their offsets."""
        n, _, _, count = moves.tensor.dims
        window, (oh, ow) = op.window(), size
        taps = window.taps
        apart = do.reshape(moves, n, taps, 2, count)
        chosen = do.reshape(do.slice(apart, (0, 0, way, 0), (n, taps, way + 1, count)), n, taps * count)
        tap = np.divmod(np.arange(taps), window.kernel[1])[way] * window.dilations[way]
        places = np.indices((oh, ow))[way].reshape(1, -1) * window.strides[way] - window.pads[way]
        fixed = (tap[:, None] + places).astype(np.float32).reshape(1, -1)
        return do(top.Add(), chosen, fixed, dims=(n, taps * count))


def _part(do: Composer, value: Value, axis: int, number: int, count: int) -> Value:
    """One of `count` equal parts along an axis."""
    if count == 1:
        return value
    dims = list(value.tensor.dims)
    size = dims[axis] // count
    offset = tuple(number * size if index == axis else 0 for index in range(len(dims)))
    dims[axis] = size
    ends = tuple(start + extent for start, extent in zip(offset, dims, strict=True))
    return do.slice(value, offset, ends)
