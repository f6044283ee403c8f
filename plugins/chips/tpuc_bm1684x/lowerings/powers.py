"""Powers and quotients of floats."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value, Wants
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, f32_result, number_beside
from tpuc_bm1684x.lowerings.elementwise import BinaryFloat
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.table import TABLE

_MODES = {2.0: "SQUARE", 0.5: "SQRT", -0.5: "RSQRT"}
_LONGEST_CHAIN = 8
_LEAST = 2.0**-126


@TABLE.lowers(top.Div, *ALL)
class DivFloat(BinaryFloat):
    """A quotient stays f32 in every mode: its range says little about its small values."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(self.tpu(node.op), node.operands, f32_result(node))]

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def tpu(self, op: top.Div, last: bool = True) -> Op:
        return tpu.Div(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(top.Reciprocal, *FLOATS)
class ReciprocalFloat(Lowering[top.Reciprocal]):
    """A quotient, in f32 as all of them."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Reciprocal = node.op
        dividend = number_beside(build, "dividend", op.const_val, node.operands[0])
        lowered = tpu.Div(is_reverse=True, do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(lowered, [node.operands[0], dividend], f32_result(node))]


@TABLE.lowers(top.Pow, *FLOATS)
class PowFloat(Lowering[top.Pow]):
    """Roots, squares and small whole exponents by themselves; others as ``e**(exponent * log x)`` of positive x."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        exponent, result = float(node.op.exponent), f32_result(node)
        (value,) = node.operands
        if exponent in _MODES:
            return [build(tpu.Active(mode=_MODES[exponent]), [value], result)]
        if exponent == -1.0:
            one = number_beside(build, "dividend", 1.0, value)
            return [build(tpu.Div(is_reverse=True), [value, one], result)]
        if exponent.is_integer() and 1 <= exponent <= _LONGEST_CHAIN:
            total = value
            for index in range(int(exponent) - 1):
                name = node.name if index == int(exponent) - 2 else f"{node.name}_{index + 2}"
                total = build(tpu.Mul(), [total, value], result, name)
            return [total if exponent > 1 else build(tpu.MulConst(const_val=1.0), [value], result)]
        logarithm = build(tpu.Active(mode="LN"), [value], result, f"{node.name}_log")
        product = build(tpu.MulConst(const_val=exponent), [logarithm], result, f"{node.name}_product")
        return [build(tpu.Active(mode="EXP"), [product], result)]


@TABLE.lowers(top.Pow2, *FLOATS)
class Pow2Float(Lowering[top.Pow2]):
    """``e**(x * log base)``."""

    def refuse(self, node: LoweringNode) -> str | None:
        if node.op.const_val <= 0:
            return f"a base above 0, this one is {node.op.const_val:g}"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = f32_result(node)
        product = build(
            tpu.MulConst(const_val=math.log(node.op.const_val)), node.operands, result, f"{node.name}_product"
        )
        return [build(tpu.Active(mode="EXP"), [product], result)]


@TABLE.lowers(top.Pow3, *ALL)
class Pow3Float(Lowering[top.Pow3]):
    """``e**(exponent * log |base|)`` in f32. A base below 0 takes whole exponents; 0 stays 0, or is 1 by exponent 0."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT, Wants.FLOAT)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        base, exponent = (_ranked(node, build, index) for index in (0, 1))
        base_type, exponent_type = (value.tensor.with_element(F32) for value in (base, exponent))
        result = node.result_type.with_element(F32).with_shape(node.result_type.dims or (1,))
        last = node.name if node.result_type.dims else f"{node.name}_one"

        def step(op: Op, operands: Sequence[Value], type_: TensorType, name: str) -> Value:
            return build(op, operands, type_.at(None), f"{node.name}_{name}")

        constant = node.constants[0]
        if constant is not None and bool((constant > 0).all()):
            numbers = np.log(constant.astype(np.float64)).astype(np.float32)
            logarithm = build.weight("logarithm", numbers.reshape(base.tensor.dims))
            product = step(tpu.Mul(), [logarithm, exponent], result, "product")
            power = build(tpu.Active(mode="EXP"), [product], result, last)
            return [reshaped(build, power, node.result_type.dims, node.name)]
        magnitude = step(tpu.Active(mode="ABSVAL"), [base], base_type, "magnitude")
        # The logarithm of the smallest number is finite, so exponent 0 gives 1; 0 itself is put back below.
        kept = step(tpu.Max(), [magnitude, build.weight("least", np.full((1,), _LEAST, np.float32))], base_type, "kept")
        logarithm = step(tpu.Active(mode="LN"), [kept], base_type, "log")
        product = step(tpu.Mul(), [logarithm, exponent], result, "product")
        power = step(tpu.Active(mode="EXP"), [product], result, "power")
        below = step(tpu.CompareConst(mode="Less", const_val=0.0), [base], base_type, "below")
        two = build.weight("two", np.full((1,), 2.0, np.float32))
        odd = step(tpu.Remainder(), [exponent, two], exponent_type, "odd")
        negated = step(tpu.MulConst(const_val=-1.0), [power], result, "negated")
        turned = step(tpu.Mul(), [below, odd], result, "turned")
        signed = step(tpu.Where(), [turned, negated, power], result, "signed")
        is_zero = step(tpu.CompareConst(mode="Equal", const_val=0.0), [base], base_type, "zero")
        is_one = step(tpu.CompareConst(mode="Equal", const_val=0.0), [exponent], exponent_type, "one")
        power = build(tpu.Where(), [is_zero, is_one, signed], result, last)
        return [reshaped(build, power, node.result_type.dims, node.name)]


def _ranked(node: LoweringNode, build: LoweringBuilder, index: int) -> Value:
    """An operand without dimensions as one element along one."""
    value, constant = node.operands[index], node.constants[index]
    if value.tensor.dims:
        return value
    if constant is not None:
        return build.weight(f"operand{index}_ranked", constant.astype(np.float32).reshape(1))
    return reshaped(build, value, (1,), f"{node.name}_operand{index}")
