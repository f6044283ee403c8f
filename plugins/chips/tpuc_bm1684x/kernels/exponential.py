"""Exponential of f32 tensors from a polynomial and exponent bits; square root and reciprocal square root."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import LocalBlock, PackedConstant, Scratch, Shape4
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar, SpecialFunction, SpecialOp
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.lmem import Bm1684xLmem

# |r| <= ln(2)/2: the first dropped term, r**8 / 8!, is below 6e-9, a tenth of an f32 step at 1.
TERMS = 8
NARROW_TERMS = 6  # for results of 16 bits: the first dropped term, r**6 / 6!, is below 2.5e-6
_LOWEST = -87.0  # e**-87 is the last decade of normal f32 numbers
_HIGHEST = 88.7228  # just beyond the greatest f32
_EXPONENT = 23  # the position of the exponent in the bits of f32
_GREATEST_POWER = 127
_SMALLEST = 2.0**-126  # of normal f32 numbers: below it a square root counts as 0
_ROOT_STEPS = 3  # at most 2 units in the last place off (isa notes, SFU)

COEFFICIENTS = PackedConstant("coefficients", broadcast=True)
COEFFICIENTS_SHAPE = (1, 4 * TERMS)
BUFFERS = ("s", "t", "n")


def coefficients() -> Array:
    """The row of Taylor coefficients 1 / i!, for every lane."""
    row = np.array([1 / math.factorial(term) for term in range(TERMS)], np.float32)
    return row.view(np.uint8)[None]


def exponential_scratch(shape: Shape4, lmem: Bm1684xLmem | None = None) -> Sequence[Scratch]:
    """Scratch buffers of `Exponential` for tiles of `shape`."""
    size = (lmem or Bm1684xLmem()).tensor_bytes("aligned", shape, 4)
    return [Scratch(name, size) for name in BUFFERS]


@dataclass(frozen=True)
class Exponential:
    """Computes e**s = 2**n * e**r with n = round(s / ln 2). `s` initially holds the argument and is overwritten."""

    asm: Bm1684xAssembler
    shape: Shape4
    s: Operand
    t: Operand
    n: Operand
    table: int
    terms: int = TERMS

    @classmethod
    def at(
        cls,
        asm: Bm1684xAssembler,
        shape: Shape4,
        scratch: Mapping[str, LocalBlock],
        constants: Mapping[str, LocalBlock],
        terms: int = TERMS,
    ) -> Exponential:
        """Create from the scratch buffers and coefficients of a placed tile."""
        s, t, n = (Operand(scratch[name].address, DType.INT32 if name == "n" else DType.F32) for name in BUFFERS)
        return cls(asm, shape, s, t, n, constants["coefficients"].address, terms)

    def emit(self, result: Operand, *, bounded: bool = True) -> None:
        """`result` = e**s, clamped below -87, where it is 0 to f32 precision. `bounded`: no argument exceeds 88.

        Commands write another buffer than they read where they can: in place they take twice the time.
        """
        s, t, n = self.s, self.t, self.n
        self._do(ArithmeticOp.MAX, t, s, Scalar.of(_LOWEST, DType.F32))
        if not bounded:
            self._do(ArithmeticOp.MIN, t, t, Scalar.of(_HIGHEST, DType.F32))
        self._do(ArithmeticOp.MUL, s, t, Scalar.of(1 / math.log(2), DType.F32))
        self._do(ArithmeticOp.CAST, n, s)
        if not bounded:
            self._do(ArithmeticOp.MIN, n, n, Scalar.of(_GREATEST_POWER, DType.INT32))
        self._do(ArithmeticOp.CAST, s, n)
        self._do(ArithmeticOp.MUL, s, s, Scalar.of(math.log(2), DType.F32))
        self._do(ArithmeticOp.SUB, t, t, s)
        self.asm.record(
            SpecialFunction(
                operation=SpecialOp.POLYNOMIAL, shape=self.shape, result=s, input=t, terms=self.terms, table=self.table
            )
        )
        biased = Operand(t.address, DType.INT32)
        self._do(ArithmeticOp.ADD, biased, n, Scalar.of(_GREATEST_POWER, DType.INT32))
        self._do(ArithmeticOp.MUL, n, biased, Scalar.of(1 << _EXPONENT, DType.INT32))
        self._do(ArithmeticOp.MUL, result, s, Operand(n.address, DType.F32))

    def _do(
        self, operation: ArithmeticOp, result: Operand, left: Operand, right: Operand | Scalar | None = None
    ) -> None:
        arithmetic(self.asm, operation, self.shape, result, left, right, rounding=Rounding.HALF_TO_EVEN)


def emit_square_root(asm: Bm1684xAssembler, shape: Shape4, result: Operand, x: Operand) -> None:
    """``x * (1 / sqrt(x))`` with a divisor that is never 0; `result` must not alias `x`."""
    arithmetic(asm, ArithmeticOp.MAX, shape, result, x, Scalar.of(_SMALLEST, DType.F32))
    asm.record(SpecialFunction(operation=SpecialOp.RSQRT, shape=shape, result=result, input=result, terms=_ROOT_STEPS))
    arithmetic(asm, ArithmeticOp.MUL, shape, result, result, x)


def emit_reciprocal_root(asm: Bm1684xAssembler, shape: Shape4, result: Operand, x: Operand) -> None:
    """``1 / sqrt(x)``."""
    asm.record(SpecialFunction(operation=SpecialOp.RSQRT, shape=shape, result=result, input=x, terms=_ROOT_STEPS))
