"""Convolution and matrix product, with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, UniformPerAxis, Value
from tpuc_chip_parts.lowering import is_stated, learned_scales
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.computed import computed_refusal, is_computed, lower_computed
from tpuc_cv18.lowerings.qdm import (
    is_stored,
    quantise_qdm,
    saturation_clamps,
    stored_filters,
    stored_qdm,
    within_reach,
)
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.wide_filters import byte_count, convolution_in_bytes, repeated, split
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
    """Operand, op and filters with pads, strides and dilations that commands can say."""
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
    """One filter per channel as it is; other groups as one group whose filters are zero outside their own part."""
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
    """The same convolution on bf16; the bias stays float32, as the chip adds it."""

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
class ConvInt8(Lowering[top.Conv]):
    """Filters per output channel; int32 sums with bias, one 31-bit multiplier and shift per channel, two roundings.
    Filters that the network stores as integers stay what they are.
    """

    channel_scales = True

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node) and is_stored(node) and (not node.op.do_relu or saturation_clamps(node))

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        bias = node.constants[2]
        stored = stored_filters(node)
        if stored is not None:
            node = dataclasses.replace(node, constants=(None, stored.filters, bias))
        value, near, constant = _within_fields(node, build)
        filters, group = _plain_groups(near, constant, value.tensor.dims[1])
        result = node.quantised_result_type()
        if stored is not None:
            near = dataclasses.replace(near, group=group)
            value, near, filters = convolution_in_bytes(value, near, filters, node.name, build)
            product = stored_qdm(filters, stored.scales, bias, value.tensor.uniform, result.uniform)
        else:
            result = within_reach(result, filters, value.tensor.element)
            product = quantise_qdm(filters, bias, value.tensor.element, result.element, learned_scales(node))
        operands = [value, build.weight("filter_i8", product.filters, "si8"), build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        op = dataclasses.replace(
            _conv2d(near, group, with_bias=product.bias is not None),
            multiplier=product.multipliers,
            rshift=product.right_shifts,
            **QDM,
        )
        if zero_point(result):
            op = dataclasses.replace(op, do_relu=False, relu_limit=-1.0, offset_in_bias=True)
        if isinstance(result.element, UniformPerAxis):
            op = dataclasses.replace(op, relu_limit=-1.0)  # no channel's range reaches beyond the limit
        return [build(op, operands, result)]


@TABLE.lowers(top.MatMul, "bf16")
class MatMulBf16(Lowering[top.MatMul]):
    """The same product on bf16; the bias stays float32."""

    def refuse(self, node: LoweringNode) -> str | None:
        return computed_refusal(node) if is_computed(node) else None

    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        right = node.constants[1]
        if right is None or is_computed(node):
            return lower_computed(node, build)
        lowered = tpu.MatMul(
            right_transpose=node.op.right_transpose, do_relu=node.op.do_relu, relu_limit=node.op.relu_limit
        )
        absent = build.none()
        stored = build.weight("filter_bf16", as_bf16(right), "bf16")
        operands = [node.operands[0], stored, node.operands[2], absent, absent]
        return [build(lowered, operands, node.float_result_type())]


@TABLE.lowers(top.MatMul, "int8")
class MatMulInt8(Lowering[top.MatMul]):
    """As the convolution: one multiplier and shift per column of the result."""

    def takes_zero_points(self, node: LoweringNode) -> bool:
        plain = is_stated(node) and not is_computed(node) and is_stored(node)
        return plain and (not node.op.do_relu or saturation_clamps(node))

    def refuse(self, node: LoweringNode) -> str | None:
        return computed_refusal(node) if is_computed(node) else None

    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        right = node.constants[1]
        if right is None or is_computed(node):
            return lower_computed(node, build)
        bias = node.constants[2]
        result = node.quantised_result_type()
        value, kept = node.operands[0], stored_filters(node)
        source = value.tensor
        right = right if kept is None else kept.filters
        columns = right if op.right_transpose else right.T
        if kept is not None:
            count = byte_count(columns)
            if count > 1:
                value = repeated(value, count, len(source.dims) - 1, f"{node.name}_again", build)
                columns = split(columns, count, 1)
            product = stored_qdm(columns, kept.scales, bias, source.uniform, result.uniform)
        else:
            product = quantise_qdm(columns, bias, source.element, result.element, learned_scales(node))
        absent = build.none()
        stored = product.filters if op.right_transpose else np.ascontiguousarray(product.filters.T)
        bias32 = absent if product.bias is None else build.weight("bias_i32", product.bias.reshape(1, -1))
        lowered = tpu.MatMul(
            right_transpose=op.right_transpose,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            multipliers=product.multipliers,
            rshifts=product.right_shifts,
            **QDM,
        )
        if zero_point(result):
            lowered = dataclasses.replace(lowered, do_relu=False, relu_limit=-1.0, offset_in_bias=True)
        operands = [value, build.weight("filter_i8", stored, "si8"), bias32, absent, absent]
        return [build(lowered, operands, result)]
