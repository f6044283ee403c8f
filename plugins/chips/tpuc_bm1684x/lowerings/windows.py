"""Windows that the chip has no command for, as windows that it has: one dimension, far strides, dilations and pads."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Op, TensorType, Value, numpy_dtype
from tpuc_ops.integers import zero_point
from tpuc_ops.top.conv import Conv
from tpuc_ops.tpu.concat import Concat
from tpuc_ops.tpu.pad import Pad
from tpuc_ops.tpu.permute import Permute
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.slice import Slice
from tpuc_ops.window import Window

from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP
from tpuc_bm1684x.lowerings.common import Array

_MOST_TAPS = 256
"""Slices of one convolution: each takes some commands."""


@dataclass(frozen=True)
class InnerBuilder(LoweringBuilder):
    """A builder whose nameless ops are inner ones of the node."""

    inner: LoweringBuilder
    name: str

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        return self.inner(op, operands, result, name or self.name)

    def weight(self, suffix: str, array: Array, element: str | None = None) -> Value:
        return self.inner.weight(suffix, array, element)

    def none(self) -> Value:
        return self.inner.none()


def images(dims: Sequence[int]) -> tuple[int, ...]:
    """One dimension is a single row."""
    return (*dims[:2], 1, *dims[2:]) if len(dims) == 3 else tuple(dims)


def _reshaped(build: LoweringBuilder, value: Value, dims: Sequence[int], name: str) -> Value:
    dims = tuple(dims)
    if value.tensor.dims == dims:
        return value
    return build(Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def over_a_row(node: LoweringNode, build: LoweringBuilder, op: Any) -> tuple[LoweringNode, LoweringBuilder]:
    """The node of a window over one dimension as one of `op` over a row; its result is not reshaped back."""
    name = f"{node.name}_row"
    source = node.operands[0]
    row = _reshaped(build, source, images(source.tensor.dims), f"{node.name}_in")
    types, constants = list(node.operand_types), list(node.constants)
    types[0] = types[0].with_shape(row.tensor.dims)
    operands = [row, *node.operands[1:]]
    if len(constants) > 1 and constants[1] is not None:
        constants[1] = constants[1].reshape(images(constants[1].shape))
        types[1] = types[1].with_shape(constants[1].shape)
        if node.mode == "f32" or not source.tensor.is_quantised:
            operands[1] = build.weight("filter_row", constants[1].astype(np.float32))
    inner = dataclasses.replace(
        node,
        op=op,
        operand_types=tuple(types),
        result_types=(node.result_type.with_shape(images(node.result_type.dims)),),
        name=name,
        operands=tuple(operands),
        constants=tuple(constants),
        result_names=(name,),
    )
    return inner, InnerBuilder(build, name)


def back_from_row(node: LoweringNode, build: LoweringBuilder, value: Value) -> Value:
    """The result of a window over a row under the node's own shape and name."""
    dims = node.result_type.dims
    return build(Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None))


def row_window(op: Any) -> dict[str, Any]:
    """The window attributes of an op over one dimension as those over a row."""
    before, after = op.pads
    found: dict[str, Any] = {
        "kernel_shape": (1, *op.kernel_shape),
        "strides": (1, *op.strides),
        "pads": (0, before, 0, after),
    }
    if hasattr(op, "dilations"):
        found["dilations"] = (1, *op.dilations)
    return found


# -- far taps ----------------------------------------------------------------------------------------------------------


def far_axes(window: Window) -> tuple[int, ...]:
    """Dimensions whose stride or dilation is beyond the commands' fields."""
    return tuple(
        axis
        for axis in (0, 1)
        if window.strides[axis] > MAX_WINDOW_STEP
        or (window.dilations[axis] > MAX_WINDOW_STEP + 1 and window.kernel[axis] > 1)
    )


def far_refusal(op: Conv) -> str | None:
    """The refusal of far taps that are too many."""
    window = op.window()
    taps = math.prod(window.kernel[axis] for axis in far_axes(window))
    if taps > _MOST_TAPS:
        return f"at most {_MOST_TAPS} taps of strides above {MAX_WINDOW_STEP} or dilations above it, there are {taps}"
    return None


def _has_far_pads(window: Window) -> bool:
    beyond = any(pad >= extent for pad, extent in zip(window.pads, window.extents * 2, strict=True))
    return beyond or max(window.pads) > MAX_WINDOW_STEP


def needs_rewriting(op: Conv) -> bool:
    """Is a convolution beyond the fields of the chip's commands?"""
    window = op.window()
    return bool(far_axes(window)) or _has_far_pads(window)


def padded(build: LoweringBuilder, value: Value, pads: Sequence[int], name: str, fill: float | None = None) -> Value:
    """Rows and columns of what stands for 0, or of a stored value, around images."""
    if not any(pads):
        return value
    top, left, bottom, right = pads
    n, c, h, w = value.tensor.dims
    type_ = value.tensor.with_shape((n, c, h + top + bottom, w + left + right)).at(None)
    stored = float(zero_point(value.tensor)) if fill is None else fill
    return build(Pad(paddings=(0, 0, top, left, 0, 0, bottom, right), val=stored), [value], type_, name)


def near_convolution(node: LoweringNode, build: LoweringBuilder) -> LoweringNode:
    """The same convolution within the fields: pads are an op of their own, taps along far dimensions are channels.

    Channel `t * c + i` of a group is its channel i seen from tap t. The sums are of the same products.
    """
    op, filters = node.op, node.constants[1]
    assert filters is not None
    window: Window = op.window()
    axes = far_axes(window)
    value = padded(build, node.operands[0], window.pads, f"{node.name}_padded")
    parts = [_tap(build, value, node, window, axes, place) for place in _places(window, axes)]
    value, filters = _as_channels(build, parts, node, filters, window, axes)
    kept = [axis not in axes for axis in (0, 1)]

    def choose(pair: Sequence[int]) -> tuple[int, int]:
        return (pair[0] if kept[0] else 1, pair[1] if kept[1] else 1)

    kernel, strides, dilations = (choose(pair) for pair in (window.kernel, window.strides, window.dilations))
    plain = dataclasses.replace(op, kernel_shape=kernel, strides=strides, dilations=dilations, pads=(0, 0, 0, 0))
    types, operands, constants = list(node.operand_types), list(node.operands), list(node.constants)
    types[0], types[1] = types[0].with_shape(value.tensor.dims), types[1].with_shape(filters.shape)
    constants[1] = filters
    operands[0] = value
    if not value.tensor.is_quantised:
        operands[1] = build.weight("filter_near", filters.astype(np.float32))
    return dataclasses.replace(
        node, op=plain, operand_types=tuple(types), operands=tuple(operands), constants=tuple(constants)
    )


def _places(window: Window, axes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(window.kernel[axis]) for axis in axes)))


def _tap(
    build: LoweringBuilder,
    value: Value,
    node: LoweringNode,
    window: Window,
    axes: Sequence[int],
    place: Sequence[int],
) -> Value:
    """What all windows see at one tap of the far dimensions."""
    if not axes:
        return value
    dims, steps, offset = list(value.tensor.dims), [1, 1, 1, 1], [0, 0, 0, 0]
    counts = node.result_type.dims[2:]
    ends = list(dims)
    for axis, tap in zip(axes, place, strict=True):
        offset[axis + 2], steps[axis + 2] = tap * window.dilations[axis], window.strides[axis]
        dims[axis + 2] = counts[axis]
        ends[axis + 2] = offset[axis + 2] + (counts[axis] - 1) * steps[axis + 2] + 1
    op = Slice(offset=tuple(offset), steps=tuple(steps), ends=tuple(ends))
    name = f"{node.name}_tap{'_'.join(map(str, place))}"
    return build(op, [value], value.tensor.with_shape(tuple(dims)).at(None), name)


def _as_channels(
    build: LoweringBuilder,
    parts: Sequence[Value],
    node: LoweringNode,
    filters: Array,
    window: Window,
    axes: Sequence[int],
) -> tuple[Value, Array]:
    """The taps beside each other within every group, and the filters in the same order."""
    group, count = node.op.group, len(parts)
    n, c, h, w = parts[0].tensor.dims
    if count > 1:
        split = (n, group, c // group, h * w)
        rows = [_reshaped(build, part, split, f"{part.name}_groups") for part in parts]
        whole = rows[0].tensor.with_shape((n, group, c // group * count, h * w)).at(None)
        value = build(Concat(axis=2), rows, whole, f"{node.name}_taps")
        value = _reshaped(build, value, (n, c * count, h, w), f"{node.name}_near")
    else:
        value = parts[0]
    oc, ic = filters.shape[:2]
    order = [axis + 2 for axis in axes] + [1] + [axis + 2 for axis in (0, 1) if axis not in axes]
    near = filters.transpose(0, *order)
    kernel = [1 if axis in axes else window.kernel[axis] for axis in (0, 1)]
    return value, np.ascontiguousarray(near.reshape(oc, ic * count, *kernel))


def lowest_stored(type_: TensorType) -> float:
    """The lowest value of a stored type: what padding is to a maximum."""
    dtype = numpy_dtype(type_.storage)
    return float(np.iinfo(dtype).min) if dtype.kind in "iu" else -65504.0 if dtype.itemsize == 2 else -3.0e38


def windows_apart(node: LoweringNode, build: LoweringBuilder) -> LoweringNode:
    """A pool whose windows do not overlap, as one of images of one window each: `[n * c, places, kh, kw]`."""
    op, value = node.op, node.operands[0]
    window: Window = op.window()
    n, c, h, w = value.tensor.dims
    rows, columns = node.result_type.dims[2:]
    (kh, kw), (sh, sw) = window.kernel, window.strides
    wanted = (rows * sh, columns * sw)
    value = padded(build, value, (0, 0, max(wanted[0] - h, 0), max(wanted[1] - w, 0)), f"{node.name}_padded")
    value = _cut(build, value, (n, c, *wanted), f"{node.name}_whole")
    value = _reshaped(build, value, (n * c, rows, sh, columns, sw), f"{node.name}_split")
    value = _cut(build, value, (n * c, rows, kh, columns, kw), f"{node.name}_windows")
    apart = (n * c, rows, columns, kh, kw)
    type_ = value.tensor.with_shape(apart).at(None)
    value = build(Permute(order=(0, 1, 3, 2, 4)), [value], type_, f"{node.name}_apart")
    value = _reshaped(build, value, (n * c, rows * columns, kh, kw), f"{node.name}_images")
    return dataclasses.replace(
        node,
        op=dataclasses.replace(op, strides=(1, 1), ceil_mode=None),
        operand_types=(node.operand_types[0].with_shape(value.tensor.dims),),
        result_types=(node.result_type.with_shape((n * c, rows * columns, 1, 1)),),
        operands=(value,),
        name=f"{node.name}_pooled",
    )


def _cut(build: LoweringBuilder, value: Value, dims: tuple[int, ...], name: str) -> Value:
    """The first elements along every dimension."""
    if value.tensor.dims == dims:
        return value
    op = Slice(offset=(0,) * len(dims), steps=(1,) * len(dims), ends=dims)
    return build(op, [value], value.tensor.with_shape(dims).at(None), name)
