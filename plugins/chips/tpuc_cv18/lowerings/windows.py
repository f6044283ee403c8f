"""Rewrite windows beyond the command fields: separate padding, large strides as channels, large dilations as zeros."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Op, Value
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.base import Cv18Description
from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.operands import MAX_STEP

LOWEST = {"i8": -128.0, "u8": 0.0, "bf16": float(np.uint32(0xFF7F0000).view(np.float32))}
"""Padding value of a maximum, by stored type."""


def pads_fit(op: Any) -> bool:
    """True when the padding fits the command fields. No window may lie entirely in the padding."""
    dilations = getattr(op, "dilations", None) or (1, 1)
    extents = [(size - 1) * step + 1 for size, step in zip(op.kernel_shape, dilations, strict=True)]
    return all(pad <= MAX_STEP and pad < extent for pad, extent in zip(op.pads, extents * 2, strict=True))


def strides_fit(op: Any, most: int = MAX_STEP) -> bool:
    """True when the strides are at most `most`."""
    return max(op.strides) <= most


def pad_apart(value: Value, op: Any, fill: float, name: str, build: LoweringBuilder) -> tuple[Value, Any]:
    """The padded operand and the op without padding, where the op's padding does not fit; else both unchanged."""
    return (value, op) if pads_fit(op) else _padded(value, op, fill, name, build)


def _padded(value: Value, op: Any, fill: float, name: str, build: LoweringBuilder) -> tuple[Value, Any]:
    n, c, h, w = value.tensor.dims
    upper, left, bottom, right = op.pads
    dims = (n, c, h + upper + bottom, w + left + right)
    pad = tpu.Pad(paddings=(0, 0, upper, left, 0, 0, bottom, right), val=fill)
    padded = build(pad, [value], value.tensor.with_shape(dims).at(None), f"{name}_padded")
    return padded, dataclasses.replace(op, pads=(0, 0, 0, 0))


def most_zeros(node: LoweringNode) -> int:
    """Maximum number of zeros that a command of the chip inserts between elements or taps."""
    assert isinstance(node.chip, Cv18Description)
    return node.chip.largest_insert


def most_stride(node: LoweringNode) -> int:
    """The largest stride of a command of the chip."""
    assert isinstance(node.chip, Cv18Description)
    return node.chip.largest_stride


def loses_dilation(node: LoweringNode) -> bool:
    """True when the chip would ignore the dilation of a depthwise filter."""
    assert isinstance(node.chip, Cv18Description)
    is_per_channel = node.op.group > 1 and node.op.group == node.operand_types[0].dims[1]
    return is_per_channel and node.mode == "int8" and not node.chip.dilates_per_channel


def taps_nearer(op: top.Conv, filters: Array, zeros: int) -> tuple[top.Conv, Array]:
    """Reduce dilations beyond `zeros` zeros between taps by inserting zeros into the filters, as few as possible."""
    kernel, dilations = list(op.kernel_shape), list(op.dilations or (1, 1))
    for axis, far in enumerate(dilations):
        if far <= zeros + 1:
            continue
        near = max(step for step in range(1, zeros + 2) if far % step == 0)
        spread = list(filters.shape)
        spread[axis + 2] = (kernel[axis] - 1) * (far // near) + 1
        kernel[axis], dilations[axis] = spread[axis + 2], near
        taps = [slice(None)] * filters.ndim
        taps[axis + 2] = slice(None, None, far // near)
        wider = np.zeros(spread, filters.dtype)
        wider[tuple(taps)] = filters
        filters = wider
    return dataclasses.replace(op, kernel_shape=tuple(kernel), dilations=tuple(dilations)), filters


def stride_refusal(op: top.Conv, most: int) -> str | None:
    """The refusal of strides that neither a command, up to `most`, nor `strides_apart` supports, None if supported."""
    if strides_fit(op, most):
        return None
    apart = all(size <= stride for size, stride in zip(op.kernel_shape, op.strides, strict=True))
    if op.group != 1 or max(op.dilations) > 1 or not apart:
        return (
            f"a stride above {most} needs windows that do not overlap, without groups and dilation; this one is "
            f"{max(op.strides)}"
        )
    return None


def strides_apart(
    value: Value, op: top.Conv, filters: Array, most: int, name: str, build: LoweringBuilder
) -> tuple[Value, top.Conv, Array]:
    """Rewrite strides above `most` over non-overlapping windows: the elements of a window become channels of one
    pixel.
    """
    if strides_fit(op, most):
        return value, op, filters
    (down, right), (kh, kw) = op.strides, op.kernel_shape
    rows, columns = op.window().output(value.tensor.dims[2:])
    upper, left = op.pads[:2]
    n, c, h, w = value.tensor.dims
    behind = (max(0, rows * down - h - upper), max(0, columns * right - w - left))
    op = dataclasses.replace(op, pads=(upper, left, *behind))
    if any(op.pads):
        value, op = _padded(value, op, float(zero_point(value.tensor)), name, build)
    whole = (n, c, rows * down, columns * right)
    if value.tensor.dims != whole:
        cut = tpu.Slice(offset=(0, 0, 0, 0), steps=(1, 1, 1, 1), ends=whole)
        value = build(cut, [value], value.tensor.with_shape(whole).at(None), f"{name}_cut")
    steps: list[tuple[Op, tuple[int, ...], str]] = []
    split = (n, c, rows, down, columns, right)
    deep = (n, c * down * right, rows, columns)
    steps.append((tpu.Reshape(shape=split), split, "split"))
    steps.append((tpu.Permute(order=(0, 1, 3, 5, 2, 4)), (n, c, down, right, rows, columns), "gathered"))
    steps.append((tpu.Reshape(shape=deep), deep, "deep"))
    for step, dims, suffix in steps:
        value = build(step, [value], value.tensor.with_shape(dims).at(None), f"{name}_{suffix}")
    extended = np.zeros((*filters.shape[:2], down, right), filters.dtype)
    extended[:, :, :kh, :kw] = filters
    flat = dataclasses.replace(op, kernel_shape=(1, 1), strides=(1, 1))
    return value, flat, extended.reshape(filters.shape[0], -1, 1, 1)
