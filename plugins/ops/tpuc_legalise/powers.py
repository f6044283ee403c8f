"""Powers, quotients and functions that are made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top

from tpuc_legalise.composer import MOVES, Composed, Composer, Part, compute_type
from tpuc_legalise.table import TABLE

_MOST_FACTORS = 8
"""Whole exponents up to here are products, which have a sign; others are powers of positive numbers."""
_LEAST = 2.0**-126
"""The least normal number: its logarithm is finite."""


@TABLE.legalises(top.Reciprocal)
class ReciprocalAny(Composed[top.Reciprocal]):
    """The quotient of a number."""

    into = (*MOVES, top.Div)

    def compose(self, node: LoweringNode[top.Reciprocal], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,), rank = node.op, parts, node.result_type.rank
        number = np.full((1,) * max(rank, 1), op.const_val, np.float32)
        divide = top.Div(is_reverse=True, do_relu=op.do_relu, relu_limit=op.relu_limit)
        if rank:
            return [do(divide, x, number, last=True)]
        return [do.reshape(do(divide, x, number), last=True)]


@TABLE.legalises(top.Pow)
class PowAny(Composed[top.Pow]):
    """Products for small whole exponents, else ``e**(exponent * log x)`` of positive x."""

    into = (*MOVES, top.Div, top.Exp, top.Log, top.Mul, top.MulConst)

    def compose(self, node: LoweringNode[top.Pow], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        exponent, x = float(node.op.exponent), node.operands[0]
        if not exponent.is_integer() or not 0 < abs(exponent) <= _MOST_FACTORS:
            return [do(top.Exp(), do(top.MulConst(const_val=exponent), do(top.Log(), x)), last=True)]
        if exponent > 1:
            return [_product(do, x, int(exponent), last=True)]
        if exponent == 1:
            return [do.reshape(x, *x.tensor.dims, last=True)]
        one = np.ones((1,) * x.tensor.rank, np.float32)
        return [do(top.Div(is_reverse=True), _product(do, x, int(-exponent)), one, last=True)]


def _product(do: Composer, x: Value, count: int, *, last: bool = False) -> Value:
    """`x` times itself, with as few products as halving takes."""
    if count == 1:
        return x
    half = _product(do, x, count // 2)
    square = do(top.Mul(), half, half, last=last and count % 2 == 0)
    return square if count % 2 == 0 else do(top.Mul(), square, x, last=last)


@TABLE.legalises(top.Pow2)
class Pow2Any(Composed[top.Pow2]):
    """``e**(x * log base)``; ``0 ** x`` and powers of negative numbers have no logarithm."""

    into = (top.Exp, top.MulConst)

    def refuse(self, node: LoweringNode[top.Pow2]) -> str | None:
        return None if node.op.const_val > 0 else f"a base above 0, this one is {node.op.const_val:g}"

    def compose(self, node: LoweringNode[top.Pow2], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        product = do(top.MulConst(const_val=math.log(node.op.const_val)), parts[0])
        return [do(top.Exp(), product, last=True)]


@TABLE.legalises(top.Pow3)
class Pow3Any(Composed[top.Pow3]):
    """``e**(exponent * log |base|)``. A base below 0 takes whole exponents; 0 stays 0, or is 1 by exponent 0. Short
    floats do not tell even exponents from odd ones: their bases are above 0.
    """

    into = (
        *(top.Reshape, top.Abs, top.CompareConst, top.Exp, top.Floor, top.Log),
        *(top.MaxConst, top.Mul, top.MulConst, top.Sub, top.Where),
    )

    def refuse(self, node: LoweringNode[top.Pow3]) -> str | None:
        base, exponent = node.constants[:2]
        if base is not None and exponent is not None:
            return "all operands are constants; fold it into the network"
        if base is not None and not (base > 0).all() and compute_type(node) != "f32":
            return "bases above 0"
        return None

    def compose(self, node: LoweringNode[top.Pow3], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        base, exponent = _ranked(do, parts[0]), _ranked(do, parts[1])
        if not isinstance(base, Value) and (np.asarray(base) > 0).all():
            logarithm: Part = np.log(np.asarray(base, np.float64)).astype(np.float32)
            power = do(top.Exp(), do(top.Mul(), exponent, logarithm), last=bool(node.result_type.dims))
        elif compute_type(node) != "f32":
            power = do(top.Exp(), do(top.Mul(), do(top.Log(), base), exponent), last=bool(node.result_type.dims))
        else:
            power = self._signed(node, do, base, exponent)
        return [do.reshape(power, *node.result_type.dims, last=not node.result_type.dims)]

    def _signed(self, node: LoweringNode[top.Pow3], do: Composer, base: Part, exponent: Part) -> Value:
        """Of bases of any sign; exponent 0 gives 1, also by the logarithm of the least number."""
        magnitude = do(top.MaxConst(const_val=_LEAST), do(top.Abs(), base))
        power = do(top.Exp(), do(top.Mul(), do(top.Log(), magnitude), exponent))
        if isinstance(exponent, Value):
            halves = do(top.Floor(), do(top.MulConst(const_val=0.5), exponent))
            odd: Part = do(top.Sub(), exponent, do(top.MulConst(const_val=2.0), halves))
            is_one: Part = do(top.CompareConst(mode="Equal", const_val=0.0), exponent)
        else:
            exponents = np.asarray(exponent, np.float32)
            odd, is_one = np.mod(exponents, np.float32(2)), (exponents == 0).astype(np.float32)
        below = do(top.CompareConst(mode="Less", const_val=0.0), base)
        negative = do(top.Mul(), below, odd)
        signed = do(top.Where(), negative, do(top.MulConst(const_val=-1.0), power), power, dims=power.tensor.dims)
        is_zero = do(top.CompareConst(mode="Equal", const_val=0.0), base)
        return do(top.Where(), is_zero, is_one, signed, dims=power.tensor.dims, last=bool(node.result_type.dims))


def _ranked(do: Composer, part: Part) -> Part:
    """A value without dimensions as one element along one."""
    return do.reshape(part, 1) if isinstance(part, Value) and not part.tensor.rank else part


@TABLE.legalises(top.Sigmoid)
class SigmoidAny(Composed[top.Sigmoid]):
    """Times a number, plus another; a plain one's logarithm is the softplus of the opposite with the other sign."""

    into = (top.AddConst, top.Log, top.MulConst, top.Sigmoid, top.Softplus)

    def compose(self, node: LoweringNode[top.Sigmoid], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,) = node.op, parts
        if (op.scale, op.bias) == (1.0, 0.0):
            falling = do(top.Softplus(), do(top.MulConst(const_val=-1.0), x))
            return [do(top.MulConst(const_val=-1.0), falling, last=True)]
        scaled = do(top.MulConst(const_val=op.scale), do(top.Sigmoid(), x))
        value = do(top.AddConst(const_val=op.bias), scaled, last=not op.log)
        return [do(top.Log(), value, last=True) if op.log else value]


@TABLE.legalises(top.Softsign)
class SoftsignAny(Composed[top.Softsign]):
    """By its definition."""

    into = (top.Abs, top.AddConst, top.Div)

    def compose(self, node: LoweringNode[top.Softsign], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        (x,) = parts
        return [do(top.Div(), x, do(top.AddConst(const_val=1.0), do(top.Abs(), x)), last=True)]
