"""Normalisations by means and deviations of rows: LayerNorm, RMSNorm, InstanceNorm, GroupNorm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_legalise.composer import MOVES, Composed, Composer, Part
from tpuc_legalise.table import TABLE

_LONG = 1 << 11
"""Elements of a row that one lane works on alone."""
_INTO = (*MOVES, top.Add, top.AddConst, top.Mul, top.Pow, top.Reduce, top.Sub)


def _normalised(do: Composer, value: Value, axes: tuple[int, ...], eps: float, *, centred: bool) -> Value:
    """``(x - mean) / sqrt(variance + eps)`` along `axes`, or without the mean."""
    if centred:
        value = do(top.Sub(), value, do(top.Reduce(axes=axes, mode="ReduceMean"), value))
    variance = do(top.Reduce(axes=axes, mode="ReduceMean"), do(top.Pow(exponent=2.0), value))
    return do(top.Mul(), value, do(top.Pow(exponent=-0.5), do(top.AddConst(const_val=eps), variance)))


def _affine(do: Composer, value: Value, parts: Sequence[Part], shape: Sequence[int]) -> list[Value]:
    """Times the weight, plus the bias, as far as they are there; the last op gives the result of the node."""
    given = [None if part is None else _shaped(do, part, shape) for part in (*parts, None, None)[:2]]
    steps: list[tuple[top.Mul | top.Add, Part]] = [
        (op, part) for op, part in zip((top.Mul(), top.Add()), given, strict=True) if part is not None
    ]
    for index, (op, part) in enumerate(steps):
        value = do(op, value, part, last=index == len(steps) - 1)
    return [value if steps else do.reshape(value, *value.tensor.dims, last=True)]


def _shaped(do: Composer, part: Part, shape: Sequence[int]) -> Part:
    if isinstance(part, Value):
        return do.reshape(part, *shape)
    return np.asarray(part, np.float32).reshape(shape)


@TABLE.legalises(top.LayerNorm, top.RMSNorm)
class LastDimensions(Composed[top.LayerNorm]):
    """Over the last dimensions."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: top.LayerNorm | top.RMSNorm = node.op
        x, *affine = node.operands[0], *parts[1:]
        rank = x.tensor.rank
        start = positive_axis(op.axis, rank) if isinstance(op, top.LayerNorm) else rank - 1
        value = _normalised(do, x, tuple(range(start, rank)), op.eps, centred=isinstance(op, top.LayerNorm))
        return _affine(do, value, affine, x.tensor.dims[start:])


@TABLE.legalises(top.InstanceNorm, top.GroupNorm)
class PerChannel(Composed[top.GroupNorm]):
    """Over groups of channels, seen as rows; weight and bias are per channel."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: top.GroupNorm | top.InstanceNorm = node.op
        x, *affine = node.operands[0], *parts[1:]
        n, channels, *rest = x.tensor.dims
        groups = op.num_groups if isinstance(op, top.GroupNorm) else channels
        rows, axes = (n, groups, channels * math.prod(rest) // groups), (2,)
        parts_of_rows = _parts(node, n * groups, rows[2])
        if parts_of_rows > 1:
            rows, axes = (n * groups, parts_of_rows, rows[2] // parts_of_rows), (1, 2)
        value = _normalised(do, do.reshape(x, *rows), axes, op.eps, centred=True)
        value = do.reshape(value, n, channels, *rest)
        return _affine(do, value, affine, (1, channels, *(1,) * len(rest)))


def _parts(node: LoweringNode, rows: int, extent: int) -> int:
    """Into how many parts rows are cut that are long and would leave more than half of the chip's lanes empty."""
    assert node.chip is not None
    lanes = node.chip.lanes
    if rows >= lanes // 2 or extent <= _LONG:
        return 1
    return next((parts for parts in range(lanes, extent) if extent % parts == 0), 1)
