"""Normalisations by means and deviations of rows: LayerNorm, RMSNorm, InstanceNorm, GroupNorm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.group_norm import GroupNorm
from tpuc_ops.top.instance_norm import InstanceNorm
from tpuc_ops.top.layer_norm import LayerNorm
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.rms_norm import RMSNorm
from tpuc_ops.top.sub import Sub

from tpuc_legalise.composer import MOVES, Composed, Composer, Part
from tpuc_legalise.table import TABLE

_INTO = (*MOVES, Add, AddConst, Mul, Pow, Reduce, Sub)


def _normalised(do: Composer, value: Value, axes: tuple[int, ...], eps: float, *, centred: bool) -> Value:
    """``(x - mean) / sqrt(variance + eps)`` along `axes`, or without the mean."""
    if centred:
        value = do(Sub(), value, do(Reduce(axes=axes, mode="ReduceMean"), value))
    variance = do(Reduce(axes=axes, mode="ReduceMean"), do(Mul(), value, value))
    return do(Mul(), value, do(Pow(exponent=-0.5), do(AddConst(const_val=eps), variance)))


def _affine(do: Composer, value: Value, parts: Sequence[Part], shape: Sequence[int]) -> list[Value]:
    """Times the weight, plus the bias, as far as they are there; the last op gives the result of the node."""
    given = [None if part is None else _shaped(do, part, shape) for part in (*parts, None, None)[:2]]
    steps: list[tuple[Mul | Add, Part]] = [
        (op, part) for op, part in zip((Mul(), Add()), given, strict=True) if part is not None
    ]
    for index, (op, part) in enumerate(steps):
        value = do(op, value, part, last=index == len(steps) - 1)
    return [value if steps else do.reshape(value, *value.tensor.dims, last=True)]


def _shaped(do: Composer, part: Part, shape: Sequence[int]) -> Part:
    if isinstance(part, Value):
        return do.reshape(part, *shape)
    return np.asarray(part, np.float32).reshape(shape)


@TABLE.legalises(LayerNorm, RMSNorm)
class LastDimensions(Composed[LayerNorm]):
    """Over the last dimensions."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: LayerNorm | RMSNorm = node.op
        x, *affine = node.operands[0], *parts[1:]
        rank = x.tensor.rank
        start = positive_axis(op.axis, rank) if isinstance(op, LayerNorm) else rank - 1
        value = _normalised(do, x, tuple(range(start, rank)), op.eps, centred=isinstance(op, LayerNorm))
        return _affine(do, value, affine, x.tensor.dims[start:])


@TABLE.legalises(InstanceNorm, GroupNorm)
class PerChannel(Composed[GroupNorm]):
    """Over groups of channels, seen as rows; weight and bias are per channel."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: GroupNorm | InstanceNorm = node.op
        x, *affine = node.operands[0], *parts[1:]
        n, channels, *rest = x.tensor.dims
        groups = op.num_groups if isinstance(op, GroupNorm) else channels
        rows = do.reshape(x, n, groups, channels * math.prod(rest) // groups)
        value = _normalised(do, rows, (2,), op.eps, centred=True)
        value = do.reshape(value, n, channels, *rest)
        return _affine(do, value, affine, (1, channels, *(1,) * len(rest)))
