"""Transposed convolutions whose windows exceed a command: one convolution computes all phases of the stride as
channels, which are interleaved afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Op, TensorType, Value
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.lowerings.windows import pad_apart
from tpuc_cv18.operands import MAX_STEP


def _steps(op: top.Deconv) -> tuple[int, ...]:
    """Number of operand positions that contribute to a result, per dimension."""
    return tuple(-(-extent // stride) for extent, stride in zip(op.kernel_shape, op.strides, strict=True))


def phases_refusal(op: top.Deconv) -> str | None:
    """The refusal of ops that this rewrite does not support either, None if supported."""
    if max(op.dilations) > 1:
        return f"a window of more than {MAX_STEP + 1} places has no dilation here, this one is {max(op.dilations)}"
    if max(_steps(op)) > MAX_STEP + 1:
        return f"a window of at most {MAX_STEP + 1} strides, this one has {max(_steps(op))}"
    return None


def phase_filters(op: top.Deconv, filters: Array) -> Array:
    """Filters `[oc, c, kh, kw]` of one group as `[oc * strides, c, rows, columns]`: the taps of each phase, last
    position first.
    """
    (down, right), (rows, columns) = op.strides, _steps(op)
    outputs, channels, kh, kw = filters.shape
    wide = np.zeros((outputs, channels, rows * down, columns * right), filters.dtype)
    wide[:, :, :kh, :kw] = filters
    split = wide.reshape(outputs, channels, rows, down, columns, right)[:, :, ::-1, :, ::-1]
    return np.ascontiguousarray(split.transpose(0, 3, 5, 1, 2, 4).reshape(-1, channels, rows, columns))


def lower_phases(
    node: LoweringNode,
    build: LoweringBuilder,
    op: top.Deconv,
    operands: Sequence[Value],
    result: TensorType,
    fields: Mapping[str, Any],
) -> Value:
    """The convolution, its channels interleaved into blocks, and the crop by the padding."""
    n, _, h, w = operands[0].tensor.dims
    (down, right), (rows, columns) = op.strides, _steps(op)
    high, wide = h + rows - 1, w + columns - 1
    outputs = result.dims[1]
    around = top.Conv(kernel_shape=(rows, columns), pads=(rows - 1, columns - 1) * 2)
    source, around = pad_apart(operands[0], around, float(zero_point(operands[0].tensor)), node.name, build)
    all_fields: dict[str, Any] = {"do_relu": op.do_relu, "relu_limit": op.relu_limit, **fields}
    with_bias = operands[2].type != build.none().type
    conv = tpu.Conv2D(kernel_shape=(rows, columns), pads=around.pads, with_bias=with_bias, **all_fields)
    plain = result.shape_only() if not result.is_quantized else result

    def step(what: Op, values: Sequence[Value], dims: tuple[int, ...], suffix: str) -> Value:
        return build(what, values, plain.with_shape(dims).at(None), f"{node.name}_{suffix}")

    value = step(conv, [source, *operands[1:]], (n, outputs * math.prod(op.strides), high, wide), "phases")
    split = (n, outputs, down, right, high, wide)
    value = step(tpu.Reshape(shape=split), [value], split, "split")
    ordered = (n, outputs, high, down, wide, right)
    value = step(tpu.Permute(order=(0, 1, 4, 2, 5, 3)), [value], ordered, "ordered")
    whole = (n, outputs, high * down, wide * right)
    value = step(tpu.Reshape(shape=whole), [value], whole, "whole")
    offset = (0, 0, *op.pads[:2])
    ends = tuple(start + extent for start, extent in zip(offset, result.dims, strict=True))
    return build(tpu.Slice(offset=offset, steps=(1, 1, 1, 1), ends=ends), [value], result)
