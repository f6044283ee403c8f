"""Powers, quotients and functions composed of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tpuc.api import LoweringNode, Op, Value
from tpuc_ops import elementary, top
from tpuc_ops.arrays import Array

from tpuc_legalize.composer import MOVES, Composed, Composer, Part
from tpuc_legalize.table import TABLE

_MOST_FACTORS = 8
"""Integer exponents up to this are products; with more factors these lose more precision than a logarithm."""
_LEAST = 2.0**-126
"""The smallest normal number: its logarithm is finite."""
_GREATEST = 255 * 2.0**120
"""The largest number of bf16, in place of infinity."""


@TABLE.legalizes(top.Reciprocal)
class ReciprocalAny(Composed[top.Reciprocal]):
    """The quotient of a number and the operand."""

    into = (*MOVES, top.Div)

    def compose(self, node: LoweringNode[top.Reciprocal], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,), rank = node.op, parts, node.result_type.rank
        number = np.full((1,) * max(rank, 1), op.const_val, np.float32)
        divide = top.Div(is_reverse=True, do_relu=op.do_relu, relu_limit=op.relu_limit)
        if rank:
            return [do(divide, x, number, last=True)]
        return [do.reshape(do(divide, x, number), last=True)]


@TABLE.legalizes(top.Pow)
class PowAny(Composed[top.Pow]):
    """1 for exponent 0, products for small integer exponents, else ``e**(exponent * log x)``: of magnitudes for integer
    exponents, with the sign of x for odd ones, and of positive x for other exponents.
    """

    into = (*MOVES, top.Abs, top.Clip, top.CompareConst, top.Div, top.Exp, top.Log, top.Mul, top.MulConst)

    def compose(self, node: LoweringNode[top.Pow], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        exponent, x = float(node.op.exponent), node.operands[0]
        if exponent == 0:
            return [_one(do, x, last=True)]
        if not exponent.is_integer():
            return [_exponential(do, exponent, x, last=True)]
        if abs(exponent) > _MOST_FACTORS:
            is_odd = exponent % 2 == 1
            even = math.copysign(abs(exponent) - is_odd, exponent)
            power = _exponential(do, even, do(top.Abs(), x), last=not is_odd)
            return [do(top.Mul() if exponent > 0 else top.Div(), power, x, last=True) if is_odd else power]
        if exponent == 1:
            return [do.reshape(x, *x.tensor.dims, last=True)]
        if exponent > 0:
            return [_product(do, x, int(exponent), last=True)]
        one = np.ones((1,) * x.tensor.rank, np.float32)
        inverse = do(top.Div(is_reverse=True), x, one, last=exponent == -1)  # powers of x could be infinite
        return [_product(do, inverse, int(-exponent), last=exponent < -1)]


def _one(do: Composer, x: Value, *, last: bool = False) -> Value:
    """1 for every `x`, also for NaN where chips have it: comparisons turn it into a number, and a Clip may not."""
    assert do.node.chip is not None
    number = do(top.CompareConst(mode="Equal", const_val=1.0), x) if do.node.chip.has_infinity else x
    return do(top.Clip(min=1.0, max=1.0), number, last=last)


def _exponential(do: Composer, exponent: float, x: Value, *, last: bool) -> Value:
    return do(top.Exp(), do(top.MulConst(const_val=exponent), do(top.Log(), x)), last=last)


def _product(do: Composer, x: Value, count: int, *, last: bool = False) -> Value:
    """A power of `x` by repeated squaring."""
    if count == 1:
        return x
    half = _product(do, x, count // 2)
    square = do(top.Mul(), half, half, last=last and count % 2 == 0)
    return square if count % 2 == 0 else do(top.Mul(), square, x, last=last)


@TABLE.legalizes(top.Pow2, top.Pow3)
class Pow3Any(Composed[Op]):
    """Compute ``e**(exponent * log base)``, with the sign of the base for odd exponents.

    0 to the power 0 is 1, to positive powers 0, and to negative powers infinite; a constant base of 1 gives 1. Negative
    bases require integer exponents.
    """

    into = (
        *(top.Reshape, top.Abs, top.Clip, top.CompareConst, top.Exp, top.Floor, top.Log),
        *(top.MaxConst, top.Mul, top.MulConst, top.Sub, top.Where),
    )

    def refuse(self, node: LoweringNode) -> str | None:
        if all(constant is not None for constant in node.constants[:2]) and len(node.constants) > 1:
            return "all operands are constants; fold the op"
        return None

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        given = (node.op.const_val, *parts) if isinstance(node.op, top.Pow2) else parts
        base, exponent = (_ranked(do, part) for part in given[:2])
        if isinstance(exponent, Value) and not isinstance(base, Value) and base.size == 1 and base.item() == 1:
            power = _one(do, exponent)
        else:
            power = _Power(do, base, exponent).build()
        return [do.reshape(power, *node.result_type.dims, last=True)]


class _Power:
    """One power of a base and an exponent; constants are folded, and steps that they make unnecessary are omitted."""

    def __init__(self, do: Composer, base: Value | Array, exponent: Value | Array) -> None:
        self.do, self.base, self.exponent = do, base, exponent

    def build(self) -> Value:
        do, exponent = self.do, self.exponent
        power = do(top.Exp(), do(top.Mul(), exponent, self._logarithm()))
        odd = self._odd()
        if isinstance(odd, Value) or odd.any():
            below = self._base(lambda x: x < 0, "Less")
            if isinstance(below, Value) or below.any():
                opposite = do(top.MulConst(const_val=-1.0), power)
                power = do(top.Where(), do(top.Mul(), below, odd), opposite, power, dims=power.tensor.dims)
        is_zero = self._base(lambda x: x == 0, "Equal")
        if isinstance(is_zero, Value) or is_zero.any():
            power = do(top.Where(), is_zero, self._of_zero(), power, dims=power.tensor.dims)
        return power

    def _base(self, test: Callable[[Array], Array], mode: str) -> Value | Array:
        """A comparison of the base with 0, as 1 and 0."""
        if isinstance(self.base, Value):
            return self.do(top.CompareConst(mode=mode, const_val=0.0), self.base)
        return test(self.base).astype(np.float32)

    def _logarithm(self) -> Value | Array:
        """The logarithm of the magnitude, with the smallest number in place of 0."""
        if isinstance(self.base, Value):
            return self.do(top.Log(), self.do(top.MaxConst(const_val=_LEAST), self.do(top.Abs(), self.base)))
        return elementary.log(np.maximum(np.abs(self.base.astype(np.float64)), _LEAST)).astype(np.float32)

    def _odd(self) -> Value | Array:
        """1 where the exponent is an odd integer, 0 where it is even."""
        if not isinstance(self.exponent, Value):
            return np.mod(self.exponent, np.float32(2))
        halves = self.do(top.Floor(), self.do(top.MulConst(const_val=0.5), self.exponent))
        return self.do(top.Sub(), self.exponent, self.do(top.MulConst(const_val=2.0), halves))

    def _of_zero(self) -> Value | Array:
        """0 to the power of the exponent."""
        do, exponent = self.do, self.exponent
        assert do.node.chip is not None
        infinite = np.float32(np.inf if do.node.chip.has_infinity else _GREATEST)
        if not isinstance(exponent, Value):
            return np.where(exponent < 0, infinite, exponent == 0).astype(np.float32)
        is_below, is_one = (do(top.CompareConst(mode=mode, const_val=0.0), exponent) for mode in ("Less", "Equal"))
        return do(
            top.Where(), is_below, np.full((1,) * exponent.tensor.rank, infinite), is_one, dims=exponent.tensor.dims
        )


def _ranked(do: Composer, part: Part) -> Value | Array:
    """A scalar as one element along one dimension."""
    if isinstance(part, Value):
        return part if part.tensor.rank else do.reshape(part, 1)
    return np.atleast_1d(np.asarray(part, np.float32))


@TABLE.legalizes(top.Sigmoid)
class SigmoidAny(Composed[top.Sigmoid]):
    """Multiply by `scale` and add `bias`; the logarithm of a plain sigmoid is ``-softplus(-x)``."""

    into = (top.AddConst, top.Log, top.MulConst, top.Sigmoid, top.Softplus)

    def compose(self, node: LoweringNode[top.Sigmoid], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,) = node.op, parts
        if (op.scale, op.bias) == (1.0, 0.0):
            falling = do(top.Softplus(), do(top.MulConst(const_val=-1.0), x))
            return [do(top.MulConst(const_val=-1.0), falling, last=True)]
        scaled = do(top.MulConst(const_val=op.scale), do(top.Sigmoid(), x))
        value = do(top.AddConst(const_val=op.bias), scaled, last=not op.log)
        return [do(top.Log(), value, last=True) if op.log else value]


@TABLE.legalizes(top.Softsign)
class SoftsignAny(Composed[top.Softsign]):
    """Compute ``x / (1 +
    x
    )``.
    """

    into = (top.Abs, top.AddConst, top.Div)

    def compose(self, node: LoweringNode[top.Softsign], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        (x,) = parts
        return [do(top.Div(), x, do(top.AddConst(const_val=1.0), do(top.Abs(), x)), last=True)]
