"""Convolution and matrix product with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, ScalarType, TensorType, Uniform, UniformPerAxis, Value
from tpuc_chip_parts.lowering import learned_scales
from tpuc_ops import top, tpu
from tpuc_ops.quant.casts import parameters
from tpuc_ops.quant.products import QuantizedProduct, quantize_product, stored_product

from tpuc_bm1684x.lowerings.common import FLOATS, INTEGERS, Array, float_weight
from tpuc_bm1684x.lowerings.matmul import lower_computed
from tpuc_bm1684x.lowerings.multiplied import repeated
from tpuc_bm1684x.lowerings.sums import scaled_sums
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.taps import far_refusal, near_convolution, needs_rewriting
from tpuc_bm1684x.lowerings.transposed import is_transposed, lower_transposed
from tpuc_bm1684x.lowerings.wide_products import in_floats, is_too_wide

_I16 = ScalarType("i16")
_ROUNDING = "HalfUp"
_STATED_ROUNDING = "HalfToEven"
"""Rounding of the runtimes of prequantized networks."""


def _conv_refusal(node: LoweringNode[top.Conv]) -> str | None:
    if node.constants[1] is None:
        return "the filter must be a constant"
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    return far_refusal(node.op)


class ConvBase(Lowering[top.Conv]):
    """Base of convolutions; rewrites those outside the command fields."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _conv_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        node = centered(node)
        if needs_rewriting(node.op):
            node = near_convolution(node, build)
        return [self.plain(repeated(node, build), build)]

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        """Lower a convolution that fits the command fields."""
        raise NotImplementedError


def _conv2d(op: top.Conv, *, with_bias: bool) -> tpu.Conv2D:
    return tpu.Conv2D(
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        group=op.group,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        with_bias=with_bias,
    )


@TABLE.lowers(top.Conv, *FLOATS)
class ConvFloat(ConvBase):
    """Convolution in floats with f32 biases; depthwise convolutions run in f32 with f32 filters."""

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        filters = node.constants[1]
        assert filters is not None
        operands = list(node.operands)
        depthwise = filters.shape[:2] == (node.op.group, 1) and node.op.group > 1
        if node.mode != "f32" and not depthwise:
            operands[1] = float_weight(build, "filter", filters, node.mode)
        op = _conv2d(node.op, with_bias=node.constants[2] is not None)
        return build(op, operands, node.float_result_type())


def _quantized(node: LoweringNode, filters: Array, bias: Array | None, result: TensorType) -> QuantizedProduct:
    """The quantized filters by output channel; as stored in a prequantized network."""
    source = node.operands[0].tensor
    element = node.operand_types[1].element if len(node.operand_types) > 1 else None
    if isinstance(element, (Uniform, UniformPerAxis)):
        return stored_product(filters, element, bias, source.uniform, result.uniform)
    return quantize_product(filters, bias, _scales(source), _scales(result), learned=learned_scales(node))


def centered(node: LoweringNode) -> LoweringNode:
    """Subtract the zero points of filters that the network stores as integers."""
    filters = node.constants[1]
    if filters is None or len(node.operand_types) < 2:
        return node
    source, type_, *others = node.operand_types
    if not isinstance(type_.element, (Uniform, UniformPerAxis)):
        return node
    points = parameters(type_)[1]
    if not points.any():
        return node
    if isinstance(type_.element, Uniform):
        element = dataclasses.replace(type_.element, storage=_I16, zero_point=0)
    else:
        element = dataclasses.replace(type_.element, storage=_I16, zero_points=(0,) * len(type_.element.scales))
    types = (source, type_.with_element(element), *others)
    whole = (filters.astype(np.int64) - points).astype(np.int16)
    return dataclasses.replace(node, operand_types=types, constants=(node.constants[0], whole, *node.constants[2:]))


def _as_weights(filters: Array, depthwise: bool, build: LoweringBuilder) -> tuple[Value, int]:
    """Filters as signed bytes. Wider ones become unsigned bytes with a zero point, or 16-bit integers in a depthwise
    convolution. Returns the weight and its zero point.
    """
    if filters.dtype == np.int8:
        return build.weight("filter_i8", filters, "si8"), 0
    if depthwise:
        return build.weight("filter_i16", filters, "si16"), 0
    point = max(0, -int(filters.min()))  # commands hold it as an unsigned byte
    return build.weight("filter_u8", (filters + point).astype(np.uint8), "ui8"), point


def _scales(type: TensorType) -> Uniform | UniformPerAxis:
    return type.element if isinstance(type.element, UniformPerAxis) else type.uniform


@TABLE.lowers(top.Conv, *INTEGERS)
class ConvInt8(ConvBase):
    """Per-channel filters; int32 sums, bias, one multiplier and shift per channel, rounded half up. With float output,
    the sums are multiplied by one factor per channel. Prequantized filters use a float32 factor per channel, rounded
    half to even, as the runtimes of such networks do.
    """

    channel_scales = True
    float_sums = True

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        filters, bias = node.constants[1], node.constants[2]
        assert filters is not None
        result = node.quantized_result_type()
        depthwise = filters.shape[:2] == (node.op.group, 1) and node.op.group > 1
        if not depthwise and is_too_wide(filters):
            return ConvFloat().plain(in_floats(node, build), build)
        product = _quantized(node, filters, bias, result)
        stored, point = _as_weights(product.filters, depthwise, build)
        operands = [node.operands[0], stored, build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        op = dataclasses.replace(_conv2d(node.op, with_bias=product.bias is not None), kernel_zp=point)
        if node.float_sums:
            return scaled_sums(node, build, op, operands, product.scales, axis=1)
        if product.floats:
            op = dataclasses.replace(op, scales=product.floats, round_mode=_STATED_ROUNDING)
        else:
            op = dataclasses.replace(
                op, multiplier=product.multipliers, rshift=product.right_shifts, round_mode=_ROUNDING
            )
        if isinstance(result.element, UniformPerAxis):
            op = dataclasses.replace(op, relu_limit=-1.0)  # no channel's range reaches beyond the limit
        return build(op, operands, result)


def _matmul_refusal(node: LoweringNode) -> str | None:
    return "hdim_is_batch has no kernel; permute the operands" if node.op.hdim_is_batch else None


def _is_computed(node: LoweringNode) -> bool:
    """True unless the right operand is a constant matrix and the left one is computed."""
    return node.constants[1] is None or node.constants[1].ndim != 2 or node.constants[0] is not None


@TABLE.lowers(top.MatMul, *FLOATS)
class MatMulFloat(Lowering[top.MatMul]):
    """Matrix product in floats; biases are added in f32."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _matmul_refusal(node)

    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        if is_transposed(node):
            return lower_transposed(node, build, self.lower)
        if _is_computed(node):
            return lower_computed(node, build)
        lowered = tpu.MatMul(
            right_transpose=node.op.right_transpose, do_relu=node.op.do_relu, relu_limit=node.op.relu_limit
        )
        right = node.constants[1]
        assert right is not None
        operands = [*node.operands, build.none(), build.none()]
        if node.mode != "f32":
            operands[1] = float_weight(build, "filter", right, node.mode)
        return [build(lowered, operands, node.float_result_type())]


@TABLE.lowers(top.MatMul, *INTEGERS)
class MatMulInt8(Lowering[top.MatMul]):
    """Lowers like the convolution, with one multiplier and shift per result column."""

    float_sums = True

    def refuse(self, node: LoweringNode) -> str | None:
        return _matmul_refusal(node)

    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        if is_transposed(node):
            return lower_transposed(node, build, self.lower)
        if _is_computed(node):
            return lower_computed(node, build)
        node = centered(node)
        op = node.op
        right, bias = node.constants[1], node.constants[2]
        assert right is not None
        if is_too_wide(right):
            return MatMulFloat().lower(in_floats(node, build), build)
        result = node.quantized_result_type()
        columns = right if op.right_transpose else right.T
        plain_bias = None if bias is None else bias.reshape(-1)
        product = _quantized(node, columns, plain_bias, result)
        absent = build.none()
        matrix = product.filters if op.right_transpose else np.ascontiguousarray(product.filters.T)
        stored, point = _as_weights(matrix, False, build)
        bias32 = absent if product.bias is None else build.weight("bias_i32", product.bias.reshape(1, -1))
        operands = [node.operands[0], stored, bias32, absent, absent]
        lowered = tpu.MatMul(
            right_transpose=op.right_transpose, do_relu=op.do_relu, relu_limit=op.relu_limit, right_zp=point
        )
        if node.float_sums:
            return [scaled_sums(node, build, lowered, operands, product.scales, axis=-1)]
        if product.floats:
            lowered = dataclasses.replace(lowered, scales=product.floats, round_mode=_STATED_ROUNDING)
        else:
            lowered = dataclasses.replace(
                lowered, multipliers=product.multipliers, rshifts=product.right_shifts, round_mode=_ROUNDING
            )
        return [build(lowered, operands, result)]
