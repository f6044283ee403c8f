"""Elementwise arithmetic of two tensors, or of a tensor and a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import BF16, Lowering, LoweringBuilder, LoweringNode, Op, ScalarType, TensorType, Uniform, Value
from tpuc_chip_parts.lowering import result_with_sign, stored_operands
from tpuc_chip_parts.numbers import AddConstFloat, MulConstFloat
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.affine import affine_product, is_affine
from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import (
    QDM,
    as_bf16,
    bf16,
    bf16_operands,
    decompose_qdm,
    may_move_scale,
    with_scale,
)
from tpuc_cv18.lowerings.factors import has_points, multiplies_two, product_by_tables
from tpuc_cv18.lowerings.gates import gate_of, gated
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.residual import is_product, sum_as_product
from tpuc_cv18.lowerings.sums import choose_multipliers
from tpuc_cv18.lowerings.table import TABLE


def _weighted(node: LoweringNode, build: LoweringBuilder) -> list[Value]:
    """The operands as bf16, multiplied by their coefficients."""
    values = bf16_operands(node, build)
    coefficients = getattr(node.op, "coeff", None) or (1.0,) * len(values)
    return [
        value
        if factor == 1.0
        else build(tpu.MulConst(const_val=bf16(factor)), [value], value.tensor.at(None), f"{node.name}_weighted{index}")
        for index, (value, factor) in enumerate(zip(values, coefficients, strict=True))
    ]


class BinaryBf16(Lowering[Any]):
    """Base of bf16 arithmetic."""

    def tpu(self, op: Any) -> Op:
        """The TPU op with the same attributes."""
        raise NotImplementedError

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(self.tpu(node.op), _weighted(node, build), node.float_result_type())]


@TABLE.lowers(top.Add, "bf16")
class AddBf16(BinaryBf16):
    """Sums operands pairwise; the chip rounds each sum."""

    def lower(self, node: LoweringNode[top.Add], build: LoweringBuilder) -> Sequence[Value]:
        result = node.float_result_type()
        total, *others = _weighted(node, build)
        if not others:
            raise ValueError("a sum of one operand is that operand; leave the node out")
        for index, other in enumerate(others[:-1], 1):
            dims = np.broadcast_shapes(total.tensor.dims, other.tensor.dims)
            total = build(tpu.Add(), [total, other], result.with_shape(dims).at(None), f"{node.name}_sum{index}")
        lowered = tpu.Add(do_relu=node.op.do_relu, relu_limit=node.op.relu_limit)
        return [build(lowered, [total, others[-1]], result)]


@TABLE.lowers(top.Sub, "bf16")
class SubBf16(BinaryBf16):
    """Difference in bf16."""

    def tpu(self, op: top.Sub) -> Op:
        return tpu.Sub(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(top.Mul, "bf16")
class MulBf16(BinaryBf16):
    """Product in bf16."""

    def tpu(self, op: top.Mul) -> Op:
        return tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit)


@dataclass(frozen=True)
class Term:
    """A stored operand with its scale and its coefficient in a sum."""

    value: Value
    scale: float
    coefficient: float = 1.0


def terms_of(node: LoweringNode, build: LoweringBuilder, coefficients: Sequence[float] | None = None) -> list[Term]:
    """Operands with their scales; a constant is quantized with its own scale. Computed operands come first, because the
    first operand's type tells whether the op is one of integers.
    """
    factors = coefficients or (1.0,) * len(node.operands)
    terms = [
        Term(value, scale, factor) for (value, scale), factor in zip(stored_operands(node, build), factors, strict=True)
    ]
    is_constant = [constant is not None for constant in node.constants]
    return [term for _, term in sorted(zip(is_constant, terms, strict=True), key=lambda pair: pair[0])]


@TABLE.lowers(top.Add, "int8")
@TABLE.lowers(top.Sub, "int8")
class SumInt8(Lowering[Any]):
    """Each operand times coefficient * Sx / Sy over a common power of two, rounded once at the end. Sy moves by a few
    percent to where the multipliers fit best. In prequantized networks, the sum is a convolution over the channels
    of both operands, or a 1×1 convolution with the constant operand as its bias.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_product(node) or is_affine(node)

    @with_relu_apart
    def lower(self, node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        if is_product(node):
            return [sum_as_product(node, build)]
        if is_affine(node):
            return [affine_product(node, build)]
        result = node.quantized_result_type()
        coefficients = list(op.coeff or (1.0,) * len(node.operands))
        if isinstance(op, top.Sub):
            coefficients[0 if op.is_reverse else 1] *= -1
        terms = terms_of(node, build, coefficients)
        factors = [term.coefficient * term.scale / result.uniform.scale for term in terms]
        choice = choose_multipliers(
            factors, [term.value.tensor for term in terms], result, fixed=not may_move_scale(node)
        )
        lowered = tpu.Add(
            do_relu=op.do_relu, relu_limit=op.relu_limit, multipliers=choice.multipliers, rshifts=(choice.shift,)
        )
        wanted = with_scale(result, result.uniform.scale * choice.widening)
        return [build(lowered, [term.value for term in terms], wanted)]


@TABLE.lowers(top.Mul, "int8")
class MulInt8(Lowering[top.Mul]):
    """Rescales by Sx1 * Sx2 / Sy as a 31-bit multiplier and a shift; in bf16 where that is 1 or more. In prequantized
    networks, a tensor times a function of itself is a table, and a tensor times a constant is a depthwise
    convolution. Operands with zero points, and signed ones of an unsigned product, are converted to bf16 by tables.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return gate_of(node) is not None or is_affine(node) or multiplies_two(node)

    @with_relu_apart
    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        gate = gate_of(node)
        if gate is not None:
            return [gated(node, gate, build)]
        if is_affine(node):
            return [affine_product(node, build)]
        if has_points(node):
            return [product_by_tables(node, build)]
        terms = terms_of(node, build)
        unsigned = all(term.value.tensor.storage.is_unsigned for term in terms)
        result = result_with_sign(node, unsigned=unsigned)
        if result.storage.is_unsigned != unsigned:
            if not unsigned:
                return [product_by_tables(node, build) if multiplies_two(node) else self._in_bf16(node, build)]
            result = _without_sign(result)  # the engine saturates it to the stated bytes
        factor = math.prod(term.scale for term in terms) / result.uniform.scale
        if factor >= 1.0:
            return [self._in_bf16(node, build)]
        multiplier, shift = decompose_qdm(factor)
        op = tpu.Mul(
            do_relu=node.op.do_relu,
            relu_limit=node.op.relu_limit,
            multiplier=multiplier,
            rshift=shift,
            **QDM,
        )
        return [build(op, [term.value for term in terms], result)]

    def _in_bf16(self, node: LoweringNode[top.Mul], build: LoweringBuilder) -> Value:
        """Multiply in bf16: one step of the product exceeds one of the result, so most products saturate."""
        values = [
            build.weight(f"factor{index}_bf16", as_bf16(constant), "bf16")
            if constant is not None
            else cast(value, value.tensor.with_element(BF16).at(None), f"{node.name}_factor{index}", build)
            for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
        ]
        values.sort(key=lambda value: value.is_constant)
        op = tpu.Mul(do_relu=node.op.do_relu, relu_limit=node.op.relu_limit)
        return build(op, values, node.result_type.with_element(BF16))


def _without_sign(type_: TensorType) -> TensorType:
    """Unsigned bytes of the same scale."""
    return type_.with_element(Uniform(ScalarType("u8"), type_.uniform.expressed, type_.uniform.scale))


@TABLE.lowers(top.Scale, "int8")
class ScaleInt8(Lowering[top.Scale]):
    """Scale in prequantized networks; other scales are convolutions."""

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_affine(node)

    def refuse(self, node: LoweringNode) -> str | None:
        return None if is_affine(node) else "it is a convolution of every channel"

    @with_relu_apart
    def lower(self, node: LoweringNode[top.Scale], build: LoweringBuilder) -> Sequence[Value]:
        return [affine_product(node, build)]


TABLE.lowers(top.MulConst, "bf16")(MulConstFloat)
TABLE.lowers(top.AddConst, "bf16")(AddConstFloat)
TABLE.lowers(top.SubConst, "bf16")(AddConstFloat)
