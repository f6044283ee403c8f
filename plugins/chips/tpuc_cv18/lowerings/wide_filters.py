"""Filters of unsigned bytes with a zero point, nine bits, as sums of bytes over operands that are there repeatedly."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import LoweringBuilder, Value
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.lowerings.windows import pads_fit, strides_fit

_LOW, _HIGH = -128, 127
_FEW = 32
"""Channels that are worth copies of their own."""


def byte_count(filters: Array) -> int:
    """How many bytes a number of the filters is a sum of at most; 1: they are bytes."""
    low, high = int(filters.min(initial=0)), int(filters.max(initial=0))
    return max(1, -(-high // _HIGH), -(low // -_LOW))


def split(filters: Array, count: int, axis: int) -> Array:
    """The numbers as so many bytes behind each other along an axis."""
    whole = filters.astype(np.int64)
    return np.concatenate([(whole + part) // count for part in range(count)], axis).astype(filters.dtype)


def convolution_in_bytes(
    value: Value, op: top.Conv, filters: Array, name: str, build: LoweringBuilder
) -> tuple[Value, top.Conv, Array]:
    """A convolution of whole numbers as one of bytes: over repeated rows, which local memory makes. Over repeated
    channels where commands cannot say that, and as it is where every channel has a filter of its own besides.

    Where filters are more bytes than the operand only those channels are repeated, in DDR, that have numbers beyond
    bytes.
    """
    count = byte_count(filters)
    if count == 1:
        return value, op, filters
    wide = np.flatnonzero(((filters < _LOW) | (filters > _HIGH)).any(axis=(0, 2, 3)))
    if op.group == 1 and wide.size * (count - 1) <= _FEW and filters.size > 2 * value.tensor.size:
        return _some_again(value, count, wide, name, build), op, some_split(filters, count, wide)
    upper, left, bottom, right = op.pads
    rows, columns = op.kernel_shape
    deep = dataclasses.replace(
        op,
        kernel_shape=(rows * count, columns),
        strides=(op.strides[0] * count, op.strides[1]),
        pads=(upper * count, left, bottom * count, right),
    )
    if (op.dilations or (1, 1))[0] > 1 or not (pads_fit(deep) and strides_fit(deep)):
        if op.group > 1:
            return value, op, filters
        return repeated(value, count, 1, f"{name}_again", build), op, split(filters, count, 1)
    n, c, h, w = value.tensor.dims
    twice = value.tensor.with_shape((n, c, h * count, w)).at(None)
    value = build(tpu.Upsample(scale_h=count, scale_w=1), [value], twice, f"{name}_again")
    between = split(filters[:, :, :, None], count, 3)
    return value, deep, between.reshape(*filters.shape[:2], rows * count, columns)


def _some_again(value: Value, count: int, channels: Array, name: str, build: LoweringBuilder) -> Value:
    """The operand with copies of some of its channels behind it."""
    n, c, h, w = value.tensor.dims
    alone = value.tensor.with_shape((n, 1, h, w)).at(None)
    copies: list[Value] = []
    for channel in channels.tolist():
        cut = tpu.Slice(offset=(0, channel, 0, 0), steps=(1, 1, 1, 1), ends=(n, channel + 1, h, w))
        copies.append(build(cut, [value], alone, f"{name}_channel{channel}"))
    copies *= count - 1
    whole = value.tensor.with_shape((n, c + len(copies), h, w)).at(None)
    return build(tpu.Concat(axis=1), [value, *copies], whole, f"{name}_again")


def some_split(filters: Array, count: int, channels: Array) -> Array:
    """The numbers of these channels as bytes, the first one in its place and the others behind all channels."""
    first, *others = np.split(split(filters[:, channels], count, 1), count, 1)
    whole = filters.copy()
    whole[:, channels] = first
    return np.concatenate([whole, *others], 1)


def repeated(value: Value, count: int, axis: int, name: str, build: LoweringBuilder) -> Value:
    """The operand so many times behind itself."""
    dims = list(value.tensor.dims)
    dims[axis] *= count
    return build(tpu.Concat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
