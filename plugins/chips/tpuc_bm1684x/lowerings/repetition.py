"""Tile, slice, concatenate and gather tensors along one dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, TensorType, Value
from tpuc_ops import tpu

from tpuc_bm1684x.lowerings.common import Array
from tpuc_bm1684x.lowerings.places import reshaped

_MOST_PARTS = 32
"""Maximum number of operands in one concatenation; longer ones are nested."""


def part(build: LoweringBuilder, value: Value, axis: int, start: int, stop: int, name: str, step: int = 1) -> Value:
    """Elements `start`, ``start + step``, ... before `stop` along one dimension; a negative `stop` includes the first
    element.
    """
    dims = value.tensor.dims
    count = len(range(start, stop, step))
    ends = stop if stop >= 0 else -dims[axis] - 1
    op = tpu.Slice(
        offset=tuple(start if index == axis else 0 for index in range(len(dims))),
        steps=tuple(step if index == axis else 1 for index in range(len(dims))),
        ends=tuple(ends if index == axis else extent for index, extent in enumerate(dims)),
    )
    return build(op, [value], along(value.tensor, axis, count), name)


def along(type_: TensorType, axis: int, extent: int) -> TensorType:
    """The type with another extent along one dimension."""
    return type_.with_shape((*type_.dims[:axis], extent, *type_.dims[axis + 1 :])).at(None)


def joined(build: LoweringBuilder, values: Sequence[Value], axis: int, name: str) -> Value:
    """Concatenate values along a dimension."""
    extent = sum(value.tensor.dims[axis] for value in values)
    return build(tpu.Concat(axis=axis), values, along(values[0].tensor, axis, extent), name)


def tiled(build: LoweringBuilder, value: Value, axis: int, count: int, name: str) -> Value:
    """Repeat a value `count` times along a dimension."""
    if count <= _MOST_PARTS:
        return joined(build, [value] * count, axis, name)
    block = tiled(build, value, axis, _MOST_PARTS, f"{name}_block{count}")
    turns, rest = divmod(count, _MOST_PARTS)
    if not rest:
        return tiled(build, block, axis, turns, name)
    whole = tiled(build, block, axis, turns, f"{name}_most{count}")
    last = part(build, block, axis, 0, rest * value.tensor.dims[axis], f"{name}_rest{count}")
    return joined(build, [whole, last], axis, name)


def taken(build: LoweringBuilder, value: Value, axis: int, indices: Array, name: str) -> Value:
    """Gather elements in any order along a dimension, by one transfer."""
    dims = value.tensor.dims
    view = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
    rows = reshaped(build, value, view, f"{name}_view")
    places = build.weight(f"axis{axis}_places", indices.reshape(1, -1).astype(np.int32))
    type_ = value.tensor.with_shape((view[0], indices.size, view[2])).at(None)
    gathered = build(tpu.GatherRows(), [rows, places], type_, f"{name}_taken")
    result = along(value.tensor, axis, indices.size)
    return reshaped(build, gathered, result.dims, name)


def broadcast(build: LoweringBuilder, value: Value, dims: Sequence[int], name: str) -> Value:
    """Broadcast a value to `dims` by repeating it along extents of 1, with leading dimensions added."""
    shape = (1,) * (len(dims) - value.tensor.rank) + value.tensor.dims
    value = reshaped(build, value, shape, f"{name}_ranked")
    for axis, (own, wanted) in enumerate(zip(shape, dims, strict=True)):
        if own != wanted:
            value = tiled(build, value, axis, wanted, f"{name}_axis{axis}")
    return value
