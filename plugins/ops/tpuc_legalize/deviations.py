"""Normalizations by means and deviations of rows: LayerNorm, RMSNorm, InstanceNorm, GroupNorm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, compute_type, rows_of
from tpuc_legalize.table import TABLE

_LONG = 1 << 11
"""Elements of a row that a single lane should process."""
_LARGEST_IMAGE = 1 << 14
"""Elements of an image per lane that leave room in local memory for what is computed from it."""
_INTO = (*MOVES, top.Add, top.AddConst, top.Mul, top.Pow, top.Reduce, top.Sub)


def _normalized(do: Composer, value: Value, first: int, eps: float, *, centered: bool) -> Value:
    """``(x - mean) / sqrt(variance + eps)`` over the dimensions from `first` on; optionally without the mean."""
    axes = tuple(range(first, value.tensor.rank))
    # A short mean is rounded as the values are: what is left of it goes in a second step.
    for _ in range((1 if compute_type(do.node) == "f32" else 2) if centered else 0):
        value = do(top.Sub(), value, do(top.Reduce(axes=axes, mode="ReduceMean"), value))
    variance = do(top.Reduce(axes=axes, mode="ReduceMean"), do(top.Pow(exponent=2.0), value))
    return do(top.Mul(), value, do(top.Pow(exponent=-0.5), do(top.AddConst(const_val=eps), variance)))


def _affine(do: Composer, value: Value, parts: Sequence[Part], shape: Sequence[int]) -> list[Value]:
    """Multiply by the weight and add the bias, if present, broadcast to the result's shape."""
    dims = do.node.result_type.dims
    neutral = ((top.Mul(), 1.0), (top.Add(), 0.0))
    given = [(op, part) for (op, same), part in zip(neutral, parts, strict=False) if not _is_all(part, same)]
    for index, (op, part) in enumerate(given):
        factors = do.reshape(part, *shape) if isinstance(part, Value) else np.asarray(part, np.float32).reshape(shape)
        value = do(op, value, factors, last=index == len(given) - 1 and value.tensor.dims == dims)
    return [value if value.name == do.node.name else do.reshape(value, *dims, last=True)]


def _is_all(part: Part, number: float) -> bool:
    """True for an absent operand, and for a constant that changes nothing."""
    return part is None or (not isinstance(part, Value) and bool(np.all(np.asarray(part) == number)))


@TABLE.legalizes(top.LayerNorm, top.RMSNorm)
class LastDimensions(Composed[top.LayerNorm]):
    """Normalize over the last dimensions."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, *affine = node.operands[0], *parts[1:]
        dims, centered = x.tensor.dims, isinstance(node.op, top.LayerNorm)
        start = positive_axis(node.op.axis, len(dims)) if centered else len(dims) - 1
        rows = rows_of(node, math.prod(dims[:start]))
        value = _normalized(do, do.reshape(x, *rows), 2, node.op.eps, centered=centered)
        return _affine(do, value, affine, (1, 1, *rows[2:]))


@TABLE.legalizes(top.InstanceNorm, top.GroupNorm)
class PerChannel(Composed[top.GroupNorm]):
    """Normalize over groups of channels, viewed as rows; weight and bias are per channel."""

    into = _INTO

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, *affine = node.operands[0], *parts[1:]
        n, channels, *rest = x.tensor.dims
        groups = node.op.num_groups if isinstance(node.op, top.GroupNorm) else channels
        image = _image(node, groups)
        if image is not None:
            value = do.reshape(_of_groups(do, image, groups, node.op.eps), *x.tensor.dims)
            return _affine(do, value, affine, (1, channels, *(1,) * len(rest)))
        count = n * groups
        spread = _spread(node, count)
        rows = do.reshape(x, *(spread or rows_of(node, count)))
        value = _normalized(do, rows, 1 if spread else 2, node.op.eps, centered=True)
        if spread and count == channels:  # a row is a channel: its factors are those of the row
            return _affine(do, value, affine, (channels, 1, 1))
        assert node.chip is not None
        wide = node.chip.works_along_width and len(rest) != 2
        images = (n, channels, 1, math.prod(rest)) if wide else x.tensor.dims
        return _affine(do, do.reshape(value, *images), affine, (1, channels, *(1,) * (len(images) - 2)))


def _image(node: LoweringNode, groups: int) -> Value | None:
    """The value whose groups of adjacent channels fill lanes well enough to stay as it is, before a reshape that joins
    each group; None otherwise.
    """
    chip, x = node.chip, node.operands[0]
    assert chip is not None
    made = x.defining
    image = made.operands[0] if made is not None and isinstance(made.op, top.Reshape) else x
    if image.tensor.dims[0] != x.tensor.dims[0]:
        image = x
    if image.tensor.rank < 3 or compute_type(node) != "f32":
        return None
    n, channels, *rest = image.tensor.dims
    per_lane = n * -(-channels // chip.lanes) * math.prod(rest)
    if groups >= channels or channels % groups or 4 * channels < chip.lanes or per_lane > _LARGEST_IMAGE:
        return None
    return image


def _of_groups(do: Composer, value: Value, groups: int, eps: float) -> Value:
    """As `_normalized`, over groups of adjacent channels, whose means follow from those of the channels."""
    value = do(top.Sub(), value, _group_means(do, value, groups))
    variance = _group_means(do, do(top.Pow(exponent=2.0), value), groups)
    return do(top.Mul(), value, do(top.Pow(exponent=-0.5), do(top.AddConst(const_val=eps), variance)))


def _group_means(do: Composer, value: Value, groups: int) -> Value:
    n, channels, *rest = value.tensor.dims
    ones, extent = (1,) * len(rest), math.prod(rest)
    # Rows are added to each other, and then the elements of the last row: vectors are full for longest.
    width = min((width for width in range(1, extent + 1) if extent % width == 0), key=lambda w: extent // w + w)
    means = do.reshape(value, n, channels, extent // width, width)
    for axis in (2, 3):
        means = do(top.Reduce(axes=(axis,), mode="ReduceMean"), means)
    means = do(top.Reduce(axes=(2,), mode="ReduceMean"), do.reshape(means, n, groups, channels // groups))
    if groups == 1:
        return do.reshape(means, n, 1, *ones)
    repeated = do(top.Add(), np.zeros((n, groups, channels // groups), np.float32), means)
    return do.reshape(repeated, n, channels, *ones)


def _spread(node: LoweringNode, rows: int) -> tuple[int, ...] | None:
    """`[rows, parts, extent]` from long rows that would leave more than half of the chip's lanes empty."""
    assert node.chip is not None
    lanes, extent = node.chip.lanes, node.operand_types[0].size // rows
    if rows >= lanes // 2 or extent <= _LONG:
        return None
    parts = next((parts for parts in range(lanes, extent) if extent % parts == 0), None)
    return None if parts is None else (rows, parts, extent // parts)
