"""Transposed convolution with constant filters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, NoneType, TensorType, Value
from tpuc_chip_parts.lowering import is_stated, learned_scales
from tpuc_chip_parts.transposed import reaching
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.phases import lower_phases, phase_filters, phases_refusal
from tpuc_cv18.lowerings.qdm import quantize_qdm, stored_qdm
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.windows import loses_dilation, most_zeros
from tpuc_cv18.operands import MAX_STEP


def _plain_groups(op: top.Deconv, filters: Array, *, always: bool) -> tuple[Array, int]:
    """One filter per channel unchanged; other groups become one group with filters that are zero outside their own
    part. With `always`, so do groups of single channels.
    """
    groups, (outputs, channels) = op.group, filters.shape[:2]
    if groups == 1 or ((outputs, channels) == (1, groups) and not always):
        return filters, groups
    whole = np.zeros((groups, outputs, *filters.shape[1:]), filters.dtype)
    depth = channels // groups
    for group in range(groups):
        part = slice(group * depth, (group + 1) * depth)
        whole[group, :, part] = filters[:, part]
    return whole.reshape(groups * outputs, *filters.shape[1:]), 1


def _deconv(op: top.Deconv, group: int, *, with_bias: bool) -> tpu.Deconv:
    return tpu.Deconv(
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        group=group,
        dilations=op.dilations,
        output_padding=op.output_padding,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        with_bias=with_bias,
    )


def _refusal(node: LoweringNode) -> str | None:
    if node.constants[1] is None:
        return "the filter must be a constant"
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    if max(node.op.dilations) > 1 and loses_dilation(node):
        return "the chip does not dilate depthwise filters in int8"
    near, _ = reaching(node.op, node.constants[1])
    return phases_refusal(near) if _is_far(near, most_zeros(node)) else None


def _is_far(op: top.Deconv, zeros: int) -> bool:
    """True when the window exceeds the fields of a command that can insert `zeros` zeros."""
    window, extra = op.window(), op.output_padding or (0, 0)
    return any(
        extent - 1 - min(first, last - added) > MAX_STEP or stride > zeros + 1 or dilation > zeros + 1
        for extent, stride, dilation, first, last, added in zip(
            window.extents, window.strides, window.dilations, window.pads[:2], window.pads[2:], extra, strict=True
        )
    )


class _Deconvolution:
    """Shared by both modes: one command where the fields suffice, else a convolution for all phases."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder, *, in_phases: bool = False) -> None:
        constant = node.constants[1]
        assert constant is not None
        self.node, self.build = node, build
        self.near, constant = reaching(node.op, constant)
        self.is_far = in_phases or _is_far(self.near, most_zeros(node))
        self.filters, self.group = _plain_groups(self.near, constant, always=self.is_far)

    def channels(self) -> Array:
        """The filters with output channels first."""
        if self.is_far:
            return phase_filters(self.near, self.filters)
        return self.filters if self.group == 1 else self.filters.swapaxes(0, 1)

    def biases(self, bias: Array) -> Array:
        """One bias for each output channel."""
        return np.repeat(bias.reshape(-1), math.prod(self.near.strides)) if self.is_far else bias

    def value(self, stored: Value, bias: Value, result: TensorType, **fields: Any) -> Value:
        """The result, from stored filters and biases."""
        with_bias = not isinstance(bias.type, NoneType)
        source = self.node.operands[0]
        if not self.is_far:
            op = _deconv(self.near, self.group, with_bias=with_bias)
            return self.build(dataclasses.replace(op, **fields), [source, stored, bias], result)
        return lower_phases(self.node, self.build, self.near, [source, stored, bias], result, fields)

    def stored(self, filters: Array) -> Array:
        """The quantized filters of `channels`, in the op's layout."""
        own = filters if self.is_far or self.group == 1 else filters.swapaxes(0, 1)
        return np.ascontiguousarray(own)


@TABLE.lowers(top.Deconv, "bf16")
class DeconvBf16(Lowering[top.Deconv]):
    """Transposed convolution in bf16; the bias stays float32, as the chip adds it."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        parts, bias = _Deconvolution(node, build), node.constants[2]
        stored = build.weight("filter_bf16", parts.stored(as_bf16(parts.channels())), "bf16")
        added = build.none()
        if bias is not None:
            added = build.weight("bias_f32", parts.biases(bias).astype(np.float32))
        return [parts.value(stored, added, node.float_result_type())]


@TABLE.lowers(top.Deconv, "int8")
class DeconvInt8(Lowering[top.Deconv]):
    """Per-channel filters, as in the convolution. With zero points, all phases are computed by one convolution, because
    a command inserts literal zeros. Prequantized filters keep their integers.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        op, filters = node.op, node.constants[1]
        if not is_stated(node) or learned_scales(node) is None or filters is None:
            return False
        return phases_refusal(reaching(op, filters)[0]) is None

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    @with_relu_apart
    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        source, result = node.operands[0].tensor, node.quantized_result_type()
        moved = bool(zero_point(source) or zero_point(result))
        parts, bias = _Deconvolution(node, build, in_phases=moved), node.constants[2]
        biases = None if bias is None else parts.biases(bias)
        learned = learned_scales(node)
        if learned is not None and learned.size > 1:
            learned = parts.biases(learned)
        if learned is not None and (is_stated(node) or zero_point(source)):
            steps = np.broadcast_to(learned, parts.channels().shape[0])
            filters = np.rint(parts.channels() / steps.reshape(-1, 1, 1, 1))
            product = stored_qdm(filters, steps, biases, source.uniform, result.uniform)
        else:
            product = quantize_qdm(parts.channels(), biases, source.uniform, result.uniform, learned)
        stored = build.weight("filter_i8", parts.stored(product.filters), "si8")
        added = build.none()
        if product.bias is not None:
            added = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        fields: dict[str, Any] = {"multiplier": product.multipliers, "rshift": product.right_shifts, **QDM}
        if zero_point(result):
            fields |= {"do_relu": False, "relu_limit": -1.0, "offset_in_bias": True}
        return [parts.value(stored, added, result, **fields)]
