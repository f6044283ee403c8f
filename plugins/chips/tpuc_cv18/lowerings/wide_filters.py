"""Filters of unsigned bytes with a zero point, nine bits, as sums of bytes over operands that are there repeatedly."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import LoweringBuilder, Value
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.lowerings.windows import pads_fit, strides_fit

_LOW, _HIGH = -128, 127


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
    """
    count = byte_count(filters)
    if count == 1:
        return value, op, filters
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


def repeated(value: Value, count: int, axis: int, name: str, build: LoweringBuilder) -> Value:
    """The operand so many times behind itself."""
    dims = list(value.tensor.dims)
    dims[axis] *= count
    return build(tpu.Concat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
