"""Special functions (SFU), and per-channel scale and bias (LIN)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Cases, Coded, Constant, Encoding, Ignored, Number, When

from tpuc_bm1684x.isa.codecs import Tensor, extents, operation, plain_address
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.elementwise import canonical, flush, reciprocal_root
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Shape4, Source, dtype_of, regions_of

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class SpecialOp(enum.IntEnum):
    """Sub-opcodes of SFU."""

    POLYNOMIAL = 12
    POLYNOMIAL_13 = 13
    EXPONENT = 15
    RSQRT = 17


@dataclass(frozen=True, kw_only=True)
class SpecialFunction(ComputeInstruction):
    """A function of each element; input and result are aligned (SFU).

    POLYNOMIAL: sum of table[i] * x ** i over `terms` coefficients; `table` is the address of the same row in every
    lane. EXPONENT: biased exponent of x as an integer, for a mantissa in [2/3, 4/3). RSQRT: 1 / sqrt(x) with `terms`
    iterations.
    """

    table_name = "sSFU"
    stem = "sfu"
    encoding = Encoding(
        operation(SpecialOp),
        extents("shape", "res0"),
        Tensor("result", "res0", sign=1),
        Tensor("input", "opd0", sign=1),
        Number("terms", "opd1_n"),
        Cases(
            "operation",
            {
                SpecialOp.POLYNOMIAL: Constant(opd2_n_str=1),
                SpecialOp.EXPONENT: Constant(opd2_n_str=3),
                SpecialOp.RSQRT: Coded(
                    "terms", "opd2_n_str", lambda terms: max(terms - 1, 0), lambda code: code + 1, width=2
                ),
            },
        ),
        plain_address("table", "opd1"),
        Ignored("opd1_n", "opd1_addr", "opd2_n_str"),
    )

    operation: SpecialOp
    shape: Shape4
    result: Operand
    input: Operand
    terms: int = 0
    table: int = 0

    def check(self) -> None:
        super().check()
        source, result = self.input.dtype, self.result.dtype
        match self.operation:
            case SpecialOp.POLYNOMIAL_13:
                raise IllegalCommand("sfu.polynomial_13: the simulator does not support this form; use POLYNOMIAL")
            case SpecialOp.EXPONENT:
                legal = source.is_float and result is (DType.INT32 if source is DType.F32 else DType.INT16)
            case SpecialOp.RSQRT:
                legal = source is DType.F32 and result is source and self.terms > 0
            case _:
                legal = source.is_float and result is source and self.terms > 1
        if not legal:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result} with {self.terms} terms is not possible")

    def _coefficients(self) -> Operand:
        return Operand(self.table, self.input.dtype)

    def reads(self) -> Sequence[Region]:
        regions = [self.input.region(self.shape, self.target)]
        if self.operation is SpecialOp.POLYNOMIAL:
            lanes = min(self.shape[1], self.target.lanes)
            regions.append(self._coefficients().region((1, lanes, 1, max(self.terms, 1)), self.target))
        return regions

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        x = machine.load(self.input, self.shape)
        match self.operation:
            case SpecialOp.EXPONENT:
                value = _exponent(x, self.input.dtype)
            case SpecialOp.RSQRT:
                value = reciprocal_root(np.ascontiguousarray(x), self.terms, at_ends=self.target.has_ends_of_roots)
            case _:
                lanes = min(self.shape[1], self.target.lanes)
                row = machine.load(self._coefficients(), (1, lanes, 1, self.terms))
                value = _polynomial(x, row)
        with np.errstate(all="ignore"):
            machine.store(self.result, self.shape, value.astype(self.result.dtype.numpy))


def _polynomial(x: Array, row: Array) -> Array:
    """Horner's scheme, rounding each product and each sum to the type."""
    row = row[:, np.arange(x.shape[1]) % row.shape[1]]
    terms = row.shape[3]
    x, row = flush(x), flush(row)
    with np.errstate(all="ignore"):
        total = np.broadcast_to(row[..., terms - 1 :], x.shape)
        for term in range(terms - 2, -1, -1):
            total = flush(flush(total * x) + row[..., term : term + 1])
    return canonical(total)


_FOUR_THIRDS = {DType.F32: (23, 0xFF, 0x2AAAAB), DType.F16: (10, 0x1F, 0x155), DType.BF16: (7, 0xFF, 0x2B)}
"""Mantissa bits, exponent mask, and the mantissa of 4/3 rounded to the type."""


def _exponent(x: Array, dtype: DType) -> Array:
    """The biased exponent, plus 1 for positive numbers with a mantissa above 4/3."""
    width, mask, limit = _FOUR_THIRDS[dtype]
    bits = x.view(f"i{dtype.bytes}").astype(np.int32)
    return (bits >> width & mask) + ((bits & (1 << width) - 1) > limit) * (bits >= 0)


class ScaleOp(enum.IntEnum):
    """Sub-opcodes of LIN."""

    MULTIPLY_ADD = 1
    SQUARE_SUM = 20
    SQUARE_DIFFERENCE = 21


def _result_prec(scale: ScaleBias) -> int:
    return scale.result.dtype.prec


@dataclass(frozen=True, kw_only=True)
class ScaleBias(ComputeInstruction):
    """`input * scale[c] + bias[c]` in one float type; parameters are per channel (compact) or immediate (LIN).

    SQUARE_SUM: (input + scale[c]) ** 2; SQUARE_DIFFERENCE: (input - scale[c]) ** 2.
    """

    table_name = "sLIN"
    stem = "lin"
    encoding = Encoding(
        operation(ScaleOp),
        extents("shape", "res0"),
        Tensor("result", "res0", sign=1),
        Tensor("input", "opd0", prec=_result_prec, sign=1),
        Tensor("scale", "opd1", prec=_result_prec, sign=1, layout=Layout.COMPACT, immediate=True),
        When(
            lambda scale: scale.operation is ScaleOp.MULTIPLY_ADD,
            Tensor("bias", "opd2", prec=_result_prec, sign=1, layout=Layout.COMPACT, immediate=True),
        ),
        Ignored("opd2_addr", "opd2_const"),
    )

    operation: ScaleOp = ScaleOp.MULTIPLY_ADD
    shape: Shape4
    result: Operand
    input: Operand
    scale: Source
    bias: Source | None = None

    def check(self) -> None:
        super().check()
        if not self.result.dtype.is_float or self.input.dtype is not self.result.dtype:
            raise IllegalCommand(f"{self.mnemonic()}: {self.input.dtype} to {self.result.dtype}; use one float type")

    def reads(self) -> Sequence[Region]:
        channels = (1, self.shape[1], 1, 1)
        return regions_of(self.target, (self.input, self.shape), (self.scale, channels), (self.bias, channels))

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        kind = self.result.dtype.numpy
        x = flush(machine.load(self.input, self.shape))
        scale = flush(machine.fetch(self.scale, (1, self.shape[1], 1, 1)))
        with np.errstate(all="ignore"):
            match self.operation:
                case ScaleOp.MULTIPLY_ADD:
                    value = flush(x * scale)
                    if self.bias is not None:
                        value = value + flush(machine.fetch(self.bias, (1, self.shape[1], 1, 1)))
                case ScaleOp.SQUARE_SUM:
                    value = flush(x + scale)
                    value = value * value
                case ScaleOp.SQUARE_DIFFERENCE:
                    value = flush(x - scale)
                    value = value * value
            machine.store(self.result, self.shape, canonical(flush(value).astype(kind)))


__all__ = ["ScaleBias", "ScaleOp", "SpecialFunction", "SpecialOp", "dtype_of"]
