"""Convolution and matrix product with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.products import quantise_product
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.tpu.conv2d import Conv2D
from tpuc_ops.tpu.matmul import MatMul as TpuMatMul

from tpuc_bm1684x.lowerings.table import TABLE

_ROUNDING = "HalfUp"


def _conv_refusal(node: LoweringNode) -> str | None:
    op: Conv = node.op
    if node.constants[1] is None:
        return "the filter must be a constant"
    if len(op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(op.kernel_shape)} dimensions"
    if op.group != 1:
        return f"only group 1, this one has {op.group}"
    return None


def _conv2d(op: Conv, *, with_bias: bool) -> Conv2D:
    return Conv2D(
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        group=op.group,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        with_bias=with_bias,
    )


@TABLE.lowers(Conv, "f32")
class ConvFloat(Lowering[Conv]):
    """The same convolution on f32 tensors."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _conv_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op = _conv2d(node.op, with_bias=node.constants[2] is not None)
        return [build(op, node.operands, node.float_result_type())]


@TABLE.lowers(Conv, "int8")
class ConvInt8(Lowering[Conv]):
    """Filters per output channel; int32 sums, bias, one multiplier and shift per channel, rounded half up."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _conv_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        filters, bias = node.constants[1], node.constants[2]
        assert filters is not None
        result = node.quantised_result_type()
        product = quantise_product(filters, bias, node.operands[0].tensor.uniform, result.uniform)
        operands = [node.operands[0], build.weight("filter_i8", product.filters, "si8"), build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        op = _conv2d(node.op, with_bias=product.bias is not None)
        op = dataclasses.replace(op, multiplier=product.multipliers, rshift=product.right_shifts, round_mode=_ROUNDING)
        return [build(op, operands, result)]


def _matmul_refusal(node: LoweringNode) -> str | None:
    op: MatMul = node.op
    if node.constants[1] is None:
        return "the right operand must be a constant"
    if node.constants[1].ndim != 2:
        return f"the right operand must be a matrix, this one has {node.constants[1].ndim} dimensions"
    if op.left_transpose or op.output_transpose or op.hdim_is_batch:
        return "left_transpose, output_transpose and hdim_is_batch have no kernel"
    return None


@TABLE.lowers(MatMul, "f32")
class MatMulFloat(Lowering[MatMul]):
    """The same product on f32 tensors."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _matmul_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: MatMul = node.op
        tpu = TpuMatMul(right_transpose=op.right_transpose, do_relu=op.do_relu, relu_limit=op.relu_limit)
        absent = build.none()
        return [build(tpu, [*node.operands, absent, absent], node.float_result_type())]


@TABLE.lowers(MatMul, "int8")
class MatMulInt8(Lowering[MatMul]):
    """As the convolution: one multiplier and shift per column of the result."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _matmul_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: MatMul = node.op
        right, bias = node.constants[1], node.constants[2]
        assert right is not None
        result = node.quantised_result_type()
        columns = right if op.right_transpose else right.T
        plain_bias = None if bias is None else bias.reshape(-1)
        product = quantise_product(columns, plain_bias, node.operands[0].tensor.uniform, result.uniform)
        absent = build.none()
        stored = product.filters if op.right_transpose else np.ascontiguousarray(product.filters.T)
        bias32 = absent if product.bias is None else build.weight("bias_i32", product.bias.reshape(1, -1))
        tpu = TpuMatMul(
            right_transpose=op.right_transpose,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            multipliers=product.multipliers,
            rshifts=product.right_shifts,
            round_mode=_ROUNDING,
        )
        operands = [node.operands[0], build.weight("filter_i8", stored, "si8"), bias32, absent, absent]
        return [build(tpu, operands, result)]
