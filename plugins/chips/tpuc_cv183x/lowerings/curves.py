"""Functions that are made of others in bf16: powers, quotients, scaled sigmoids; circles and their tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu

from tpuc_cv183x.lowerings.halves import Halves
from tpuc_cv183x.lowerings.table import TABLE

_MOST_FACTORS = 8
"""Whole exponents up to here are products, which have a sign; others are powers of positive numbers."""


class Composed(Lowering[Any]):
    """Base: operands as they are, bf16 in between."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)


@TABLE.lowers(top.Pow, "bf16")
class PowBf16(Composed):
    """Products for small whole exponents, roots, else the exponential of a multiple of the logarithm."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps, exponent = Halves(node, build), float(node.op.exponent)
        value = steps.operand()
        if exponent != int(exponent) or not 0 < abs(exponent) <= _MOST_FACTORS:
            return steps.last(steps.powers(value, exponent))
        power = _product(steps, value, abs(int(exponent)))
        if exponent < 0:
            one = steps.constant(np.ones((1,) * len(value.tensor.dims), np.float32))
            power = steps.do(tpu.Div(is_reverse=True), [power, one])
        return steps.last(power)


def _product(steps: Halves, value: Value, count: int) -> Value:
    if count == 1:
        return value
    half = _product(steps, value, count // 2)
    square = steps.function("SQUARE", half)
    return square if count % 2 == 0 else steps.do(tpu.Mul(), [square, value])


@TABLE.lowers(top.Pow2, "bf16", "int8")
class Pow2Any(Composed):
    """The exponential of a multiple; ``0 ** x`` and powers of negative numbers have no logarithm."""

    def refuse(self, node: LoweringNode) -> str | None:
        return None if node.op.const_val > 0 else f"a base above 0, this one is {node.op.const_val:g}"

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Halves(node, build)
        return steps.last(steps.function("EXP", steps.times(steps.operand(), math.log(node.op.const_val))))


@TABLE.lowers(top.Pow3, "bf16", "int8")
class Pow3Any(Composed):
    """The exponential of the exponent times the base's logarithm: for bases above 0."""

    def refuse(self, node: LoweringNode) -> str | None:
        base = node.constants[0]
        if base is not None and (base <= 0).any():
            return "bases above 0"
        if base is not None and node.constants[1] is not None:
            return "all operands are constants; fold it into the network"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps, base = Halves(node, build), node.constants[0]
        logarithm = steps.constant(np.log(base)) if base is not None else steps.function("LN", steps.operand(0))
        factors = [logarithm, steps.operand(1)]
        return steps.last(steps.function("EXP", steps.do(tpu.Mul(), factors if base is None else factors[::-1])))


@TABLE.lowers(top.Sigmoid, "bf16")
class SigmoidBf16(Composed):
    """Times a number, plus another; a plain one's logarithm is the softplus of the opposite with the other sign."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Sigmoid = node.op
        steps = Halves(node, build)
        value = steps.operand()
        plain = (op.scale, op.bias) == (1.0, 0.0)
        if plain and not op.log:
            return [steps.named("SIGMOID", value)]
        if plain:
            return steps.last(steps.times(steps.function("SOFT_PLUS", steps.times(value, -1.0)), -1.0))
        value = steps.plus(steps.times(steps.function("SIGMOID", value), op.scale), op.bias)
        return steps.last(steps.function("LN", value) if op.log else value)


@TABLE.lowers(top.Softsign, "bf16")
class SoftsignBf16(Composed):
    """``x / (1 + |x|)``."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Halves(node, build)
        value = steps.operand()
        return steps.last(steps.do(tpu.Div(), [value, steps.plus(steps.function("ABSVAL", value), 1.0)]))


@TABLE.lowers(top.Sin, "bf16")
@TABLE.lowers(top.Cos, "bf16")
class CircleBf16(Composed):
    """By tables."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Halves(node, build)
        return [steps.named("SIN" if isinstance(node.op, top.Sin) else "COS", steps.operand())]
