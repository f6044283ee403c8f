"""Operations of `tf` that rearrange, select, or count elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import Operation
from tpuc_ops.arrays import Array
from tpuc_tflite.slicing import MASKS, strided_slices

from tpuc_tensorflow.evaluation.facts import fact
from tpuc_tensorflow.evaluation.storage import checked_shape, dtype_of


def _numbers(array: Array) -> list[int]:
    return [int(item) for item in np.reshape(array, -1)]


def _of_type(operation: Operation, array: Any) -> list[Array]:
    dtype = dtype_of(operation.results[0].type)
    return [np.asarray(array, dtype if dtype is not None else None)]


def _shape(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    dtype = dtype_of(operation.results[0].type)
    return [np.array(operand.shape, dtype) for operand in operands]


def _size(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return _of_type(operation, operands[0].size)


def _rank(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return _of_type(operation, operands[0].ndim)


def _reshape(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [operands[0].reshape(_numbers(operands[1]))]


def _expand_dims(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.expand_dims(operands[0], _numbers(operands[1])[0])]


def _squeeze(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    axes = fact(operation, "squeeze_dims") or fact(operation, "axis") or ()
    return [np.squeeze(operands[0], tuple(axes) or None)]


def _transpose(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [operands[0].transpose(_numbers(operands[1]))]


def _invert_permutation(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return _of_type(operation, np.argsort(operands[0]))


def _concat(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    arrays, axis = (operands[1:], operands[0]) if operation.op.name == "tf.Concat" else (operands[:-1], operands[-1])
    return [np.concatenate(list(arrays), int(axis))]


def _pack(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.stack(operands, fact(operation, "axis", 0))]


def _unpack(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    axis = fact(operation, "axis", 0)
    return [np.take(operands[0], index, axis) for index in range(len(operation.results))]


def _split(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    axis, x = operands
    return list(np.split(x, len(operation.results), int(axis)))


def _split_v(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, sizes, axis = operands
    extent = x.shape[int(axis)]
    known = [size if size >= 0 else extent - sum(s for s in _numbers(sizes) if s >= 0) for size in _numbers(sizes)]
    if sum(known) != extent:
        raise ValueError(f"parts of {known} do not make {extent}")
    return list(np.split(x, np.cumsum(known)[:-1].tolist(), int(axis)))


def _slice(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, begins, sizes = operands
    cuts = [slice(b, None if s == -1 else b + s) for b, s in zip(_numbers(begins), _numbers(sizes), strict=True)]
    return [x[tuple(cuts)]]


def _strided_slice(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, begins, ends, strides = operands
    masks = {name: fact(operation, name, 0) for name in MASKS}
    cuts = strided_slices(x.shape, _numbers(begins), _numbers(ends), _numbers(strides), masks)
    part = x[tuple(slice(c.start, c.stop if c.stop >= 0 else None, c.step) for c in cuts.ranges)]
    return [part.reshape(cuts.shape)]


def _gather(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    if fact(operation, "batch_dims", 0):
        raise NotImplementedError("batch_dims other than 0 has no evaluation")
    axis = int(operands[2]) if len(operands) > 2 else 0
    return [np.take(operands[0], operands[1], axis)]


def _gather_nd(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, places = operands
    return [x[tuple(np.moveaxis(places, -1, 0))]]


def _fill(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.full(checked_shape(_numbers(operands[0])), operands[1])]


def _zeros(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.zeros_like(operands[0])]


def _ones(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.ones_like(operands[0])]


def _range(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    start, limit, delta = (np.asarray(operand).reshape(()) for operand in operands)
    (count,) = checked_shape([max(0, math.ceil((float(limit) - float(start)) / float(delta)))])
    return _of_type(operation, start + np.arange(count, dtype=start.dtype) * delta)


def _tile(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    times = _numbers(operands[1])
    checked_shape([extent * count for extent, count in zip(operands[0].shape, times, strict=True)])
    return [np.tile(operands[0], times)]


def _broadcast_to(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.broadcast_to(operands[0], checked_shape(_numbers(operands[1]))).copy()]


def _broadcast_args(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return _of_type(operation, np.broadcast_shapes(*(tuple(_numbers(operand)) for operand in operands)))


def _pad(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, pairs = operands[0], [tuple(pair) for pair in operands[1].tolist()]
    checked_shape([sum(pair) + extent for pair, extent in zip(pairs, x.shape, strict=True)])
    if operation.op.name == "tf.MirrorPad":
        mode: Any = "reflect" if fact(operation, "mode") == "REFLECT" else "symmetric"
        return [np.pad(x, pairs, mode)]
    return [np.pad(x, pairs, constant_values=operands[2].item() if len(operands) > 2 else 0)]


def _reverse(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    return [np.flip(operands[0], tuple(_numbers(operands[1]))).copy()]


def _one_hot(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    places, depth, on, off = operands
    axis = fact(operation, "axis", -1)
    (count,) = checked_shape([int(depth)])
    hit = np.expand_dims(places, axis) == np.moveaxis(np.arange(count).reshape([-1] + [1] * places.ndim), 0, axis)
    return _of_type(operation, np.where(hit, on, off))


def _arg(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    find: Callable[..., Any] = np.argmax if operation.op.name == "tf.ArgMax" else np.argmin
    return _of_type(operation, find(operands[0], int(operands[1])))


def _top_k(_: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, count = operands[0], int(operands[1])
    places = np.argsort(-x, axis=-1, kind="stable")[..., :count]
    return [np.take_along_axis(x, places, -1), places.astype(np.int32)]


def _cumsum(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    x, axis = operands[0], int(operands[1])
    way = -1 if fact(operation, "reverse", False) else 1
    x = np.moveaxis(x, axis, 0)[::way]
    sums = np.cumsum(x, 0, x.dtype)
    if fact(operation, "exclusive", False):
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    return [np.moveaxis(sums[::way], 0, axis)]


ARRANGEMENTS: Mapping[str, Callable[[Operation, Sequence[Array]], Sequence[Array]]] = {
    **dict.fromkeys(("Concat", "ConcatV2"), _concat),
    **dict.fromkeys(("Gather", "GatherV2", "ResourceGather"), _gather),
    **dict.fromkeys(("Pad", "PadV2", "MirrorPad"), _pad),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("Shape", "ShapeN"), _shape),
    "BroadcastArgs": _broadcast_args,
    "BroadcastTo": _broadcast_to,
    "Cumsum": _cumsum,
    "ExpandDims": _expand_dims,
    "Fill": _fill,
    "GatherNd": _gather_nd,
    "InvertPermutation": _invert_permutation,
    "OneHot": _one_hot,
    "OnesLike": _ones,
    "Pack": _pack,
    "Range": _range,
    "Rank": _rank,
    "Reshape": _reshape,
    "ReverseV2": _reverse,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "SplitV": _split_v,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "TopKV2": _top_k,
    "Transpose": _transpose,
    "Unpack": _unpack,
    "ZerosLike": _zeros,
}
