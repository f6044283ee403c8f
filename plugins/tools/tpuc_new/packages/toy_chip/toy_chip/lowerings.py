"""TOP op × int8 → TPU ops. Every choice that changes a value is made here, none in a kernel.

Values are symmetric: int8 with zero point 0, uint8 where they are never negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, LoweringTable, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.quant.products import quantize_product

TABLE = LoweringTable("toy", "top")

# The chip only shifts right (manual, 3); multipliers of sums are 32-bit, all others 8-bit.
_wide_factor = partial(decompose_search, bits=32, lowest_shift=0)
_narrow_factor = partial(decompose_search, bits=8, lowest_shift=0)


@TABLE.lowers(top.Conv, "int8")
class ConvInt8(Lowering[top.Conv]):
    """Per output channel: filter scale w = absmax / 127, q = round half away (f / w), bias32 = round half away
    (b / (w * Sx)), and w * Sx / Sy as a multiplier and a shift, rounded half up (`quantize_product`).
    """

    def refuse(self, node: LoweringNode) -> str | None:
        op: top.Conv = node.op
        if node.constants[1] is None or (len(node.constants) > 2 and _computed(node, 2)):
            return "filter and bias must be constants"
        if len(op.kernel_shape) != 2:
            return f"only 2-D windows, this one has {len(op.kernel_shape)} dimensions"
        if op.group != 1:
            return f"only group 1, this one has {op.group}"
        if op.inserts and any(op.inserts):
            return "zeros inserted between rows are not supported"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Conv = node.op
        filters = node.constants[1]
        assert filters is not None
        result = node.quantized_result_type()
        source = node.operands[0].tensor.uniform
        product = quantize_product(filters, _bias(node), source, result.uniform, _wide_factor)
        bias = build.none() if product.bias is None else build.weight("bias_i32", product.bias)
        lowered = tpu.Conv2D(
            kernel_shape=op.kernel_shape,
            strides=op.strides,
            pads=op.pads,
            dilations=op.dilations,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            with_bias=product.bias is not None,
            multiplier=product.multipliers,
            rshift=product.right_shifts,
            round_mode="HalfUp",
        )
        return [build(lowered, [node.operands[0], build.weight("filter_i8", product.filters), bias], result)]


@TABLE.lowers(top.MatMul, "int8")
class MatMulInt8(Lowering[top.MatMul]):
    """As the convolution, per column of the result."""

    def refuse(self, node: LoweringNode) -> str | None:
        op: top.MatMul = node.op
        if node.constants[1] is None or (len(node.constants) > 2 and _computed(node, 2)):
            return "the right operand and the bias must be constants"
        if node.operand_types[1].rank != 2:
            return f"the right operand must be a matrix, this one has {node.operand_types[1].rank} dimensions"
        if op.left_transpose or op.output_transpose or op.hdim_is_batch:
            return "left_transpose, output_transpose and hdim_is_batch are not supported"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.MatMul = node.op
        right = node.constants[1]
        assert right is not None
        result = node.quantized_result_type()
        columns = right if op.right_transpose else right.T
        source = node.operands[0].tensor.uniform
        product = quantize_product(columns, _bias(node), source, result.uniform, _wide_factor)
        bias = build.none() if product.bias is None else build.weight("bias_i32", product.bias)
        stored = product.filters if op.right_transpose else np.ascontiguousarray(product.filters.T)
        lowered = tpu.MatMul(
            right_transpose=op.right_transpose,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            multipliers=product.multipliers,
            rshifts=product.right_shifts,
            round_mode="HalfUp",
        )
        return [build(lowered, [node.operands[0], build.weight("right_i8", stored), bias], result)]


def _computed(node: LoweringNode, index: int) -> bool:
    """Is the operand there, and not a constant?"""
    return node.operand_types[index].size > 0 and node.constants[index] is None


def _bias(node: LoweringNode) -> Any:
    bias = node.constants[2] if len(node.constants) > 2 else None
    return None if bias is None else bias.reshape(-1)


@TABLE.lowers(top.Add, "int8")
class AddInt8(Lowering[top.Add]):
    """coefficient * Sx / Sy as an 8-bit multiplier and a shift per operand, each rounded half up, then added."""

    def refuse(self, node: LoweringNode) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if any(constant is not None for constant in node.constants):
            return "a constant operand has no lowering; fold it into the op before"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Add = node.op
        result = node.quantized_result_type()
        factors = [
            _narrow_factor(coefficient * operand.tensor.uniform.scale / result.uniform.scale)
            for coefficient, operand in zip(op.coeff or (1.0, 1.0), node.operands, strict=True)
        ]
        multipliers, shifts = zip(*factors, strict=True)
        lowered = tpu.Add(do_relu=op.do_relu, relu_limit=op.relu_limit, multipliers=multipliers, rshifts=shifts)
        return [build(lowered, node.operands, result)]


@TABLE.lowers(top.MaxPool, "int8")
class MaxPoolInt8(Lowering[top.MaxPool]):
    """The maximum of stored values, which keep their type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _pool_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(_pool(node.op, "Max"), node.operands, result)]


@TABLE.lowers(top.AvgPool, "int8")
class AvgPoolInt8(Lowering[top.AvgPool]):
    """The sum times Sx / (Sy * taps) as an 8-bit multiplier and a shift, rounded half up."""

    def refuse(self, node: LoweringNode) -> str | None:
        op: top.AvgPool = node.op
        if op.ceil_mode or (any(op.pads) and not (op.count_include_pad and op.pad_value == 0)):
            return "an average over windows of different size; let the padding count as zeros, or use no padding"
        return _pool_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.AvgPool = node.op
        result = node.quantized_result_type()
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        multiplier, shift = _narrow_factor(node.operands[0].tensor.uniform.scale / (result.uniform.scale * taps))
        return [build(_pool(op, "Avg", multiplier, shift), node.operands, result)]


def _pool_refusal(node: LoweringNode) -> str | None:
    rank = len(node.op.kernel_shape)
    return f"only 2-D windows, this one has {rank} dimensions" if rank != 2 else None


def _pool(op: top.MaxPool | top.AvgPool, mode: str, multiplier: int = 1, shift: int = 0) -> tpu.Pool2D:
    return tpu.Pool2D(
        kernel_shape=op.kernel_shape,
        pool_mode=mode,
        strides=op.strides,
        pads=op.pads,
        count_include_pad=op.count_include_pad,
        keepdims=op.keepdims,
        ceil_mode=op.ceil_mode,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        multiplier=multiplier,
        rshift=shift,
        round_mode="HalfUp",
    )


@TABLE.lowers(top.Relu, "int8")
class ReluInt8(Lowering[top.Relu]):
    """A clamp of stored values, which keep their type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Relu(relu_limit=node.op.relu_limit), node.operands, node.operands[0].tensor.at(None))]


@TABLE.lowers(top.Softmax, "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """In f32 in every mode: eight bits cannot hold the tail of a distribution."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Softmax = node.op
        return [build(tpu.Softmax(axis=op.axis, beta=op.beta, log=op.log), node.operands, node.float_result_type())]


@TABLE.lowers(top.Reshape, "int8")
@TABLE.lowers(top.Flatten, "int8")
class ReshapeAny(Lowering[top.Reshape]):
    """The same bytes under another shape."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        dims = node.result_type.dims
        return [build(tpu.Reshape(shape=dims), node.operands[:1], node.operands[0].tensor.with_shape(dims))]


@TABLE.lowers(top.Permute, "int8")
class PermuteAny(Lowering[top.Permute]):
    """A transposition of stored values."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(tpu.Permute(order=node.op.order), node.operands, result)]
