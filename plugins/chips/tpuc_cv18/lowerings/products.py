"""Convolution with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import BF16, F32, Lowering, LoweringBuilder, LoweringNode, Node, TensorType, UniformPerAxis, Value
from tpuc_chip_parts.lowering import is_stated, learned_scales
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point
from tpuc_ops.quantized import SometimesBytes

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.qdm import (
    float_sums,
    is_stored,
    quantize_qdm,
    stored_filters,
    stored_qdm,
    within_reach,
)
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.wide_filters import (
    beyond_bytes,
    convolution_in_bytes,
    parts_apart_pay,
)
from tpuc_cv18.lowerings.windows import (
    loses_dilation,
    most_stride,
    most_zeros,
    pad_apart,
    stride_refusal,
    strides_apart,
    taps_nearer,
)


def _refusal(node: LoweringNode[top.Conv]) -> str | None:
    if node.constants[1] is None:
        return "the filter must be a constant"
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    return stride_refusal(node.op, most_stride(node))


def _within_fields(node: LoweringNode, build: LoweringBuilder) -> tuple[Value, top.Conv, Array]:
    """Operand, op and filters, rewritten so that pads, strides and dilations fit the command fields."""
    filters = node.constants[1]
    assert filters is not None
    near, filters = taps_nearer(node.op, filters, 0 if loses_dilation(node) else most_zeros(node))
    value, op, filters = strides_apart(node.operands[0], near, filters, most_stride(node), node.name, build)
    value, op = pad_apart(value, op, float(zero_point(value.tensor)), node.name, build)
    return value, op, filters


def _conv2d(op: top.Conv, group: int, *, with_bias: bool) -> tpu.Conv2D:
    return tpu.Conv2D(
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        group=group,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        with_bias=with_bias,
    )


def _plain_groups(op: top.Conv, filters: Array, channels: int) -> tuple[Array, int]:
    """One filter per channel unchanged; other groups become one group with filters that are zero outside their own
    part.
    """
    groups = op.group
    if groups == 1 or (filters.shape[0], channels) == (groups, groups):
        return filters, groups
    oc, depth = filters.shape[:2]
    whole = np.zeros((oc, channels, *filters.shape[2:]), filters.dtype)
    for group in range(groups):
        part = slice(group * oc // groups, (group + 1) * oc // groups)
        whole[part, group * depth : (group + 1) * depth] = filters[part]
    return whole, 1


@TABLE.lowers(top.Conv, "bf16")
class ConvBf16(Lowering[top.Conv]):
    """Convolution in bf16; the bias stays float32, as the chip adds it."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        bias = node.constants[2]
        value, near, constant = _within_fields(node, build)
        filters, group = _plain_groups(near, constant, value.tensor.dims[1])
        op = _conv2d(near, group, with_bias=bias is not None)
        operands = [value, build.weight("filter_bf16", as_bf16(filters), "bf16"), node.operands[2]]
        return [build(op, operands, node.float_result_type())]


@TABLE.lowers(top.Conv, "int8")
class ConvInt8(Lowering[top.Conv], SometimesBytes):
    """Per-channel filters; int32 sums with bias, one 31-bit multiplier and shift per channel, rounded twice. With float
    output, the sums are multiplied by a bf16 scale per channel, except in depthwise convolutions. Prequantized
    filters keep their integers.
    """

    channel_scales = True
    float_sums = True

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node) and is_stored(node)

    def returns_bytes(self, node: Node[top.Conv]) -> bool:
        x, filters = node.operand_types[:2]
        return node.op.group > 1 and x.dims[1] == filters.dims[0] == node.op.group

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    @with_relu_apart
    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        bias = node.constants[2]
        stored = stored_filters(node)
        if stored is not None:
            node = dataclasses.replace(node, constants=(None, stored.filters, bias))
        value, near, constant = _within_fields(node, build)
        filters, group = _plain_groups(near, constant, value.tensor.dims[1])
        result = node.quantized_result_type()
        wide: tuple[int, ...] = ()
        if stored is not None:
            near = dataclasses.replace(near, group=group)
            assert node.chip is not None
            if parts_apart_pay(value, near, filters, result, node.chip.lanes):
                wide = beyond_bytes(filters)
            else:
                value, near, filters = convolution_in_bytes(value, near, filters, node.name, build)
            kind = np.int16 if wide else np.int8
            product = stored_qdm(filters, stored.scales, bias, value.tensor.uniform, result.uniform, kind=kind)
        else:
            result = within_reach(result, filters, value.tensor.element)
            if node.float_sums and group == 1:
                return [self._floats(node, build, near, (value, filters), result)]
            product = quantize_qdm(filters, bias, value.tensor.element, result.element, learned_scales(node))
        weight = ("filter_i16", product.filters, "si16") if wide else ("filter_i8", product.filters, "si8")
        operands = [value, build.weight(*weight), build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        op = dataclasses.replace(
            _conv2d(near, group, with_bias=product.bias is not None),
            multiplier=product.multipliers,
            rshift=product.right_shifts,
            wide=wide,
            **QDM,
        )
        if zero_point(result):
            op = dataclasses.replace(op, do_relu=False, relu_limit=-1.0, offset_in_bias=True)
        if isinstance(result.element, UniformPerAxis):
            op = dataclasses.replace(op, relu_limit=-1.0)  # no channel's range reaches beyond the limit
        return [build(op, operands, result)]

    def _floats(
        self,
        node: LoweringNode,
        build: LoweringBuilder,
        near: top.Conv,
        source: tuple[Value, Array],
        result: TensorType,
    ) -> Value:
        """A convolution within the command fields, with float output."""
        value, filters = source
        stored, scales = float_sums(filters, value.tensor.element, result.element)
        op = dataclasses.replace(_conv2d(near, 1, with_bias=node.constants[2] is not None), scales=scales)
        weight = build.weight("filter_i8", stored, "si8")
        return build(op, [value, weight, node.operands[2]], result.with_element(F32 if node.read_as_f32 else BF16))
