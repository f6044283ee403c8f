"""Fold nodes whose results are known at compile time: shape arithmetic, and unpacked weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import ForeignNode, InvalidModel
from tpuc_importing.obstacles import place_of
from tpuc_ops.arrays import Array

from tpuc_tflite.building import TfliteBuilder
from tpuc_tflite.graph import TensorEntry
from tpuc_tflite.slicing import strided_slices

Fold: TypeAlias = Callable[[ForeignNode, Sequence[Array], Sequence[TensorEntry]], Sequence[Array]]
"""Maps node, operands, and the file's description of the results to the results."""

MOST_ELEMENTS = 1 << 24
"""Maximum number of elements of a computed constant, so that it does not fill the memory."""

_DTYPES = {
    "BOOL": np.bool_,
    "FLOAT16": np.float16,
    "FLOAT32": np.float32,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "INT8": np.int8,
    "UINT8": np.uint8,
}
_BROKEN = (ValueError, TypeError, IndexError, KeyError, ArithmeticError, OverflowError, MemoryError)


QUESTIONS = frozenset({"FILL", "RANGE", "RANK", "SHAPE", "ZEROS_LIKE", "BROADCAST_ARGS"})
"""Operators that disappear by folding if shapes are known, and have no other form."""


def foldable() -> Sequence[str]:
    """Return the operators that are computed here if their operands are constant."""
    return sorted(_FOLDS)


def fold(node: ForeignNode, build: TfliteBuilder) -> Sequence[Array] | None:
    """Return the node's results if they are constant, None if it must run."""
    if node.domain:
        return None
    if node.op_type in ("SHAPE", "RANK") and build.is_known(node.inputs[0]):
        shape = build.shape(node.inputs[0])
        return [np.array(shape, np.int32) if node.op_type == "SHAPE" else np.array(len(shape), np.int32)]
    if (
        node.op_type == "ZEROS_LIKE"
        and build.is_known(node.inputs[0])
        and not build.entry(node.outputs[0]).is_quantized
    ):
        dtype = _DTYPES.get(build.entry(node.outputs[0]).kind, np.float32)
        return [np.zeros(_checked(build.shape(node.inputs[0])), dtype)]
    rule = _FOLDS.get(node.op_type)
    arrays = [build.constant(name) for name in node.inputs if name]
    if rule is None or not arrays or any(array is None for array in arrays):
        return None
    results = [build.entry(name) for name in node.outputs]
    try:
        with np.errstate(all="ignore"):
            if node.op_type == "DEQUANTIZE":
                return [_dequantized(node, build)]
            if node.op_type == "DENSIFY":
                return [array for array in arrays if array is not None]  # weights are whole once they are loaded
            if any(entry.is_quantized for entry in results):
                return None  # the integers would have to be computed as the network's own runtime does
            folded = rule(node, [array for array in arrays if array is not None], results)
    except _BROKEN as error:
        raise InvalidModel(
            f"{place_of(node)}: its operands are constants, but it cannot be "
            f"computed: {str(error).rstrip('.')}. Export the network again."
        ) from error
    return [array.astype(_DTYPES[entry.kind]) for array, entry in zip(folded, results, strict=True)]


def _dequantized(node: ForeignNode, build: TfliteBuilder) -> Array:
    array = build.real(node.inputs[0])
    assert array is not None
    return array.astype(np.float32)


def _checked(shape: Sequence[int]) -> tuple[int, ...]:
    extents = tuple(int(extent) for extent in shape)
    if min(extents, default=1) < 0 or math.prod(extents) > MOST_ELEMENTS:
        raise ValueError(f"the shape {list(extents)} is impossible")
    return extents


def _elementwise(function: Callable[..., Array]) -> Fold:
    def fold_elements(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
        _checked(np.broadcast_shapes(*(array.shape for array in arrays)))
        return [np.asarray(function(*arrays))]

    return fold_elements


def _reduction(function: Callable[..., Array]) -> Fold:
    def fold_axes(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
        axes = tuple(int(axis) for axis in arrays[1].reshape(-1))
        return [np.asarray(function(arrays[0], axis=axes, keepdims=bool(node.attributes.get("keep_dims"))))]

    return fold_axes


def _quotient(left: Array, right: Array) -> Array:
    """Divide; integers are truncated toward zero."""
    if left.dtype.kind == "f":
        return left / right
    if not right.all():
        raise ValueError("it divides by zero")
    quotient = np.abs(left.astype(np.int64)) // np.abs(right.astype(np.int64))
    return np.where((left < 0) != (right < 0), -quotient, quotient)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _reshape(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
    target = arrays[1] if len(arrays) > 1 else np.array(node.attributes.get("new_shape", ()))
    return [arrays[0].reshape([int(extent) for extent in target.reshape(-1)])]


def _strided_slice(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
    begin, end, strides = (array.reshape(-1).tolist() for array in arrays[1:4])
    cuts = strided_slices(arrays[0].shape, begin, end, strides, node.attributes)
    part = arrays[0][tuple(slice(c.start, c.stop if c.stop >= 0 else None, c.step) for c in cuts.ranges)]
    return [part.reshape(cuts.shape)]


def _slice(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    x, begin, size = arrays
    cuts = [slice(b, None if s == -1 else b + s) for b, s in zip(begin.tolist(), size.tolist(), strict=True)]
    return [x[tuple(cuts)]]


def _gather(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
    return [np.take(arrays[0], arrays[1], int(node.attributes.get("axis", 0)))]


def _pack(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
    return [np.stack(arrays, int(node.attributes.get("axis", 0)))]


def _unpack(node: ForeignNode, arrays: Sequence[Array], results: Sequence[TensorEntry]) -> Sequence[Array]:
    axis = int(node.attributes.get("axis", 0))
    return [np.take(arrays[0], index, axis) for index in range(len(results))]


def _concatenation(node: ForeignNode, arrays: Sequence[Array], _: Sequence[TensorEntry]) -> Sequence[Array]:
    return [np.concatenate(list(arrays), int(node.attributes.get("axis", 0)))]


def _fill(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    return [np.full(_checked(arrays[0].reshape(-1).tolist()), arrays[1].reshape(()))]


def _broadcast_to(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    return [np.broadcast_to(arrays[0], _checked(arrays[1].reshape(-1).tolist()))]


def _broadcast_args(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    shapes = [_checked(array.reshape(-1).tolist()) for array in arrays]
    return [np.array(np.broadcast_shapes(*shapes), np.int64)]


def _split(node: ForeignNode, arrays: Sequence[Array], results: Sequence[TensorEntry]) -> Sequence[Array]:
    """The axis is the first operand of SPLIT and the last one of SPLIT_V, whose sizes may hold one -1."""
    if node.op_type == "SPLIT":
        return np.split(arrays[1], len(results), int(arrays[0].reshape(())))
    x, sizes, axis = arrays[0], arrays[1].reshape(-1).astype(np.int64), int(arrays[2].reshape(()))
    sizes = np.where(sizes < 0, x.shape[axis] - sizes[sizes >= 0].sum(), sizes)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _tile(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    times = [int(count) for count in arrays[1].reshape(-1)]
    _checked([extent * count for extent, count in zip(arrays[0].shape, times, strict=True)])
    return [np.tile(arrays[0], times)]


def _range(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    start, limit, delta = (array.reshape(()) for array in arrays)
    (count,) = _checked([max(0, math.ceil((float(limit) - float(start)) / float(delta)))])
    return [start + np.arange(count, dtype=start.dtype) * delta]


def _same(_: ForeignNode, arrays: Sequence[Array], results: Sequence[TensorEntry]) -> Sequence[Array]:
    return [arrays[0].reshape(results[0].shape) if arrays[0].size == math.prod(results[0].shape) else arrays[0]]


def _transpose(_: ForeignNode, arrays: Sequence[Array], __: Sequence[TensorEntry]) -> Sequence[Array]:
    return [arrays[0].transpose([int(axis) for axis in arrays[1].reshape(-1)])]


_FOLDS: Mapping[str, Fold] = {
    "ABS": _elementwise(np.abs),
    "ADD": _elementwise(np.add),
    "BROADCAST_ARGS": _broadcast_args,
    "BROADCAST_TO": _broadcast_to,
    "CAST": _same,
    "CEIL": _elementwise(np.ceil),
    "CONCATENATION": _concatenation,
    "DENSIFY": _same,
    "DEQUANTIZE": _same,
    "DIV": _elementwise(_quotient),
    "EQUAL": _elementwise(np.equal),
    "EXPAND_DIMS": _same,
    "FILL": _fill,
    "FLOOR_DIV": _elementwise(np.floor_divide),
    "FLOOR_MOD": _elementwise(np.mod),
    "GATHER": _gather,
    "FLOOR": _elementwise(np.floor),
    "GREATER": _elementwise(np.greater),
    "GREATER_EQUAL": _elementwise(np.greater_equal),
    "LESS": _elementwise(np.less),
    "LESS_EQUAL": _elementwise(np.less_equal),
    "LOGICAL_AND": _elementwise(np.logical_and),
    "LOGICAL_NOT": _elementwise(np.logical_not),
    "LOGICAL_OR": _elementwise(np.logical_or),
    "MAXIMUM": _elementwise(np.maximum),
    "MINIMUM": _elementwise(np.minimum),
    "MUL": _elementwise(np.multiply),
    "NEG": _elementwise(np.negative),
    "NOT_EQUAL": _elementwise(np.not_equal),
    "PACK": _pack,
    "RANGE": _range,
    "REDUCE_ALL": _reduction(np.all),
    "REDUCE_ANY": _reduction(np.any),
    "REDUCE_MAX": _reduction(np.max),
    "REDUCE_MIN": _reduction(np.min),
    "REDUCE_PROD": _reduction(np.prod),
    "RESHAPE": _reshape,
    "RSQRT": _elementwise(_rsqrt),
    "SELECT": _elementwise(np.where),
    "SELECT_V2": _elementwise(np.where),
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SQRT": _elementwise(np.sqrt),
    "SQUEEZE": _same,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _elementwise(np.subtract),
    "SUM": _reduction(np.sum),
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
