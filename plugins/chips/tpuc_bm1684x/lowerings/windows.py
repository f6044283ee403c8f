"""Rewrite windows that no command supports: padding, and non-overlapping windows with large strides."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, TensorType, Value, numpy_dtype
from tpuc_ops import tpu
from tpuc_ops.integers import zero_point
from tpuc_ops.window import Window


def reshaped(build: LoweringBuilder, value: Value, dims: Sequence[int], name: str) -> Value:
    """The value under another shape."""
    dims = tuple(dims)
    if value.tensor.dims == dims:
        return value
    return build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def padded(build: LoweringBuilder, value: Value, pads: Sequence[int], name: str, fill: float | None = None) -> Value:
    """Pad images with rows and columns of the stored zero, or of the stored value `fill`."""
    if not any(pads):
        return value
    top, left, bottom, right = pads
    n, c, h, w = value.tensor.dims
    type_ = value.tensor.with_shape((n, c, h + top + bottom, w + left + right)).at(None)
    stored = float(zero_point(value.tensor)) if fill is None else fill
    return build(tpu.Pad(paddings=(0, 0, top, left, 0, 0, bottom, right), val=stored), [value], type_, name)


def lowest_stored(type_: TensorType) -> float:
    """The lowest value of a stored type, which pads a maximum."""
    dtype = numpy_dtype(type_.storage)
    return float(np.iinfo(dtype).min) if dtype.kind in "iu" else -65504.0 if dtype.itemsize == 2 else -3.0e38


def windows_apart(node: LoweringNode, build: LoweringBuilder) -> LoweringNode:
    """Rewrite a pool with non-overlapping windows as a pool of images with one window each: `[n * c, places, kh,
    kw]`.
    """
    op, value = node.op, node.operands[0]
    window: Window = op.window()
    n, c, h, w = value.tensor.dims
    rows, columns = node.result_type.dims[2:]
    (kh, kw), (sh, sw) = window.kernel, window.strides
    wanted = (rows * sh, columns * sw)
    value = padded(build, value, (0, 0, max(wanted[0] - h, 0), max(wanted[1] - w, 0)), f"{node.name}_padded")
    value = _cut(build, value, (n, c, *wanted), f"{node.name}_whole")
    value = reshaped(build, value, (n * c, rows, sh, columns, sw), f"{node.name}_split")
    value = _cut(build, value, (n * c, rows, kh, columns, kw), f"{node.name}_windows")
    apart = (n * c, rows, columns, kh, kw)
    type_ = value.tensor.with_shape(apart).at(None)
    value = build(tpu.Permute(order=(0, 1, 3, 2, 4)), [value], type_, f"{node.name}_apart")
    value = reshaped(build, value, (n * c, rows * columns, kh, kw), f"{node.name}_images")
    return dataclasses.replace(
        node,
        op=dataclasses.replace(op, strides=(1, 1), ceil_mode=None),
        operand_types=(node.operand_types[0].with_shape(value.tensor.dims),),
        result_types=(node.result_type.with_shape((n * c, rows * columns, 1, 1)),),
        operands=(value,),
        name=f"{node.name}_pooled",
    )


def _cut(build: LoweringBuilder, value: Value, dims: tuple[int, ...], name: str) -> Value:
    """Keep the first elements along every dimension."""
    if value.tensor.dims == dims:
        return value
    op = tpu.Slice(offset=(0,) * len(dims), steps=(1,) * len(dims), ends=dims)
    return build(op, [value], value.tensor.with_shape(dims).at(None), name)
