"""Convolutions whose strides, dilations or pads exceed the command fields: kernel taps become channels."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_ops import top, tpu
from tpuc_ops.window import Window

from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP
from tpuc_bm1684x.lowerings.common import Array
from tpuc_bm1684x.lowerings.windows import padded, reshaped

_MOST_TAPS = 256
"""Maximum number of slices for one convolution; each takes some commands."""


def far_axes(window: Window) -> tuple[int, ...]:
    """Spatial axes whose stride or dilation exceeds the command fields."""
    return tuple(
        axis
        for axis in (0, 1)
        if window.strides[axis] > MAX_WINDOW_STEP
        or (window.dilations[axis] > MAX_WINDOW_STEP + 1 and window.kernel[axis] > 1)
    )


def far_refusal(op: top.Conv) -> str | None:
    """The refusal of convolutions with too many such taps, None if they fit."""
    window = op.window()
    taps = math.prod(window.kernel[axis] for axis in far_axes(window))
    if taps > _MOST_TAPS:
        return f"at most {_MOST_TAPS} taps with strides or dilations above {MAX_WINDOW_STEP}, there are {taps}"
    return None


def _has_far_pads(window: Window) -> bool:
    beyond = any(pad >= extent for pad, extent in zip(window.pads, window.extents * 2, strict=True))
    return beyond or max(window.pads) > MAX_WINDOW_STEP


def needs_rewriting(op: top.Conv) -> bool:
    """True when a convolution exceeds the command fields."""
    window = op.window()
    return bool(far_axes(window)) or _has_far_pads(window)


def near_convolution(node: LoweringNode, build: LoweringBuilder) -> LoweringNode:
    """Rewrite a convolution to fit the fields: padding becomes a separate op, taps along far axes become channels.

    Channel `t * c + i` of a group is its channel i at tap t. The sums contain the same products.
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
    if not value.tensor.is_quantized:
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
    """The input elements that all windows read at one tap of the far axes."""
    if not axes:
        return value
    dims, steps, offset = list(value.tensor.dims), [1, 1, 1, 1], [0, 0, 0, 0]
    counts = node.result_type.dims[2:]
    ends = list(dims)
    for axis, tap in zip(axes, place, strict=True):
        offset[axis + 2], steps[axis + 2] = tap * window.dilations[axis], window.strides[axis]
        dims[axis + 2] = counts[axis]
        ends[axis + 2] = offset[axis + 2] + (counts[axis] - 1) * steps[axis + 2] + 1
    op = tpu.Slice(offset=tuple(offset), steps=tuple(steps), ends=tuple(ends))
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
    """Concatenate the taps within each group, and order the filters likewise."""
    group, count = node.op.group, len(parts)
    n, c, h, w = parts[0].tensor.dims
    if count > 1:
        split = (n, group, c // group, h * w)
        rows = [reshaped(build, part, split, f"{part.name}_groups") for part in parts]
        whole = rows[0].tensor.with_shape((n, group, c // group * count, h * w)).at(None)
        value = build(tpu.Concat(axis=2), rows, whole, f"{node.name}_taps")
        value = reshaped(build, value, (n, c * count, h, w), f"{node.name}_near")
    else:
        value = parts[0]
    oc, ic = filters.shape[:2]
    order = [axis + 2 for axis in axes] + [1] + [axis + 2 for axis in (0, 1) if axis not in axes]
    near = filters.transpose(0, *order)
    kernel = [1 if axis in axes else window.kernel[axis] for axis in (0, 1)]
    return value, np.ascontiguousarray(near.reshape(oc, ic * count, *kernel))
