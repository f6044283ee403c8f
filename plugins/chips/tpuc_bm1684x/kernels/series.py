"""Logarithm, trigonometric and error functions of f32 tensors, from short polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, SpecialFunction, SpecialOp
from tpuc_bm1684x.isa.geometry import EU_BYTES
from tpuc_bm1684x.kernels.emitter import FloatEmitter
from tpuc_bm1684x.kernels.exponential import Array, coefficients

Op = ArithmeticOp

# Coefficients from the constant upwards, by interpolation at Chebyshev nodes; errors in f32 are below 6e-7.
LOGARITHM = (  # log(1 + t) / t within a third of 0
    1.00000000384, -0.500000003532, 0.333331608207, -0.249998413644, 0.200122976164,
    -0.166779736639, 0.139825788565, -0.122213591721, 0.140788892595, -0.127262891232,
)  # fmt: skip
_UNIT_LOGARITHM = (  # log(1 + t) / t from 0 to 1
    0.999999999156, -0.499999794914, 0.333324975431, -0.249864964542, 0.198858202547, -0.160876229039,
    0.123779956401, -0.0818804061412, 0.0410065711263, -0.0131878253768, 0.00198669635839,
)  # fmt: skip
_SINE = (  # sin(r) / r of r**2 up to pi**2
    0.999999999993, -0.166666666577, 0.00833333314307, -0.000198412543855, 2.75567017236e-06,
    -2.50386778865e-08, 1.58964428554e-10, -6.6100252627e-13,
)  # fmt: skip
_COSINE = (  # cos(r) of r**2 up to pi**2
    0.999999999999, -0.499999999985, 0.0416666666248, -0.0013888888453, 2.48015645323e-05,
    -2.75566501486e-07, 2.08651798385e-09, -1.13534418122e-11, 4.13104703021e-14,
)  # fmt: skip
_ERROR = (0.0, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun 7.1.26: ``1 - erf(a) = sum of c[i] * t**i * e**-a**2`` with ``t = 1 / (1 + 0.3275911 a)``."""
_ERROR_SLOPE = 0.3275911

_SMALLEST = 2.0**-126
_MANTISSA = 23
_BIAS = 127
_SIGN = -(1 << 31)
_TURN_HIGH = 6.28125  # of 2 * pi: a product with up to 2**16 turns is exact
_TURN_LOW = 2 * math.pi - _TURN_HIGH
_STEEP = 20.0  # beyond it tanh(softplus(x)) is 1 to f32 precision


@dataclass(frozen=True)
class Series:
    """A function, and its coefficients, which are stored after those of the exponential."""

    emit: Callable[[FloatEmitter], None]
    coefficients: tuple[float, ...] = ()


def table_bytes(series: Series) -> int:
    """Size of the row of `table_row` in bytes."""
    return EU_BYTES + -(-4 * len(series.coefficients) // EU_BYTES) * EU_BYTES


def table_row(series: Series) -> Array:
    """The exponential's coefficients in the first vector, followed by those of the function."""
    row = np.zeros((1, table_bytes(series)), np.uint8)
    first = coefficients()
    row[:, : first.shape[1]] = first
    own = np.array(series.coefficients, np.float32).view(np.uint8)
    row[0, EU_BYTES : EU_BYTES + own.size] = own
    return row


def _polynomial(emitter: FloatEmitter, result: Operand, x: Operand, terms: int) -> None:
    emitter.asm.record(
        SpecialFunction(
            operation=SpecialOp.POLYNOMIAL,
            shape=emitter.shape,
            result=result,
            input=x,
            terms=terms,
            table=emitter.table + EU_BYTES,
        )
    )


def _bits(operand: Operand) -> Operand:
    return Operand(operand.address, DType.INT32)


def emit_logarithm(emitter: FloatEmitter) -> None:
    """``e * ln 2 + log(m)`` with m in [2/3, 4/3); minus infinity for zero and negative numbers."""
    s, t, n = emitter.buffers
    emitter.asm.record(SpecialFunction(operation=SpecialOp.EXPONENT, shape=emitter.shape, result=n, input=emitter.x))
    emitter.integers(Op.SUB, n, n, _BIAS)
    emitter.integers(Op.MUL, _bits(s), n, 1 << _MANTISSA)
    emitter.integers(Op.SUB, _bits(t), _bits(emitter.x), _bits(s))
    emitter.do(Op.SUB, s, t, 1.0)
    _polynomial(emitter, t, s, len(LOGARITHM))
    emitter.do(Op.MUL, t, t, s)
    emitter.do(Op.CAST, s, n)
    emitter.do(Op.MUL, s, s, math.log(2))
    emitter.do(Op.ADD, emitter.result, s, t)
    emitter.do(Op.SELECT_LESS, s, emitter.x, _SMALLEST, third=-math.inf)
    emitter.do(Op.ADD, emitter.result, emitter.result, s)


def _soft_plus(emitter: FloatEmitter, x: Operand, factor: float) -> None:
    """``max(y, 0) + log(1 + e**-|y|)`` with y = x or -x."""
    s, t, _ = emitter.buffers
    emitter.do(Op.ABS, s, x)
    emitter.do(Op.MUL, s, s, -1.0)
    emitter.exponential_of_s(t)
    _polynomial(emitter, s, t, len(_UNIT_LOGARITHM))
    emitter.do(Op.MUL, s, s, t)
    emitter.do(Op.MUL, t, x, factor)
    emitter.do(Op.MAX, t, t, 0.0)
    emitter.do(Op.ADD, emitter.result, s, t)


def _log_sigmoid(emitter: FloatEmitter) -> None:
    _soft_plus(emitter, emitter.x, -1.0)
    emitter.do(Op.MUL, emitter.result, emitter.result, -1.0)


def _mish(emitter: FloatEmitter) -> None:
    """``x * w (w + 2) / (w (w + 2) + 2)`` with w = e**x."""
    s, t, _ = emitter.buffers
    emitter.do(Op.MIN, s, emitter.x, _STEEP)
    emitter.exponential_of_s(t)
    emitter.do(Op.ADD, s, t, 2.0)
    emitter.do(Op.MUL, s, s, t)
    emitter.do(Op.ADD, t, s, 2.0)
    emitter.do(Op.DIV, s, s, t)
    emitter.do(Op.MUL, emitter.result, s, emitter.x)


def _turn(emitter: FloatEmitter) -> tuple[Operand, Operand]:
    """`x` minus whole turns, and a buffer with its square."""
    s, t, _ = emitter.buffers
    emitter.do(Op.MUL, s, emitter.x, 1 / (2 * math.pi))
    emitter.do(Op.CAST, s, s)  # between equal float types it rounds to whole numbers
    emitter.do(Op.MUL, t, s, _TURN_HIGH)
    emitter.do(Op.SUB, t, emitter.x, t)
    emitter.do(Op.MUL, s, s, _TURN_LOW)
    emitter.do(Op.SUB, t, t, s)
    emitter.do(Op.MUL, s, t, t)
    return t, s


def _sine(emitter: FloatEmitter) -> None:
    rest, square = _turn(emitter)
    _polynomial(emitter, emitter.result, square, len(_SINE))
    emitter.do(Op.MUL, emitter.result, emitter.result, rest)


def _cosine(emitter: FloatEmitter) -> None:
    _, square = _turn(emitter)
    _polynomial(emitter, emitter.result, square, len(_COSINE))


def _error_function(emitter: FloatEmitter, x: Operand) -> None:
    """``1 - c(t) e**-x**2`` of the magnitude, with the sign of `x`."""
    s, t, n = emitter.buffers
    result = emitter.result
    emitter.do(Op.MUL, s, x, x)
    emitter.do(Op.MUL, s, s, -1.0)
    emitter.exponential_of_s(t)
    emitter.do(Op.ABS, result, x)
    emitter.do(Op.MUL, result, result, _ERROR_SLOPE)
    emitter.do(Op.ADD, result, result, 1.0)
    emitter.do(Op.DIV, result, 1.0, result)
    _polynomial(emitter, s, result, len(_ERROR))
    emitter.do(Op.MUL, s, s, t)
    emitter.do(Op.SUB, s, 1.0, s)
    emitter.do(Op.MAX, s, s, 0.0)
    emitter.integers(Op.AND, n, _bits(x), _SIGN)
    emitter.integers(Op.OR, _bits(result), _bits(s), n)


def _gelu(emitter: FloatEmitter) -> None:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    assert emitter.extra is not None
    emitter.do(Op.MUL, emitter.extra, emitter.x, math.sqrt(0.5))
    _error_function(emitter, emitter.extra)
    emitter.do(Op.ADD, emitter.result, emitter.result, 1.0)
    emitter.do(Op.MUL, emitter.result, emitter.result, 0.5)
    emitter.do(Op.MUL, emitter.result, emitter.result, emitter.x)


def _tanh_gelu(emitter: FloatEmitter) -> None:
    """``x / (1 + e**-2u)`` with ``u = sqrt(2 / pi) (x + 0.044715 x**3)``."""
    s, t, _ = emitter.buffers
    emitter.do(Op.MUL, s, emitter.x, emitter.x)
    emitter.do(Op.MUL, s, s, 0.044715)
    emitter.do(Op.ADD, s, s, 1.0)
    emitter.do(Op.MUL, s, s, emitter.x)
    emitter.do(Op.MUL, s, s, -2 * math.sqrt(2 / math.pi))
    emitter.do(Op.MIN, s, s, 4 * _STEEP)
    emitter.exponential_of_s(t)
    emitter.do(Op.ADD, t, t, 1.0)
    emitter.do(Op.DIV, emitter.result, emitter.x, t)


def _soft_sign(emitter: FloatEmitter) -> None:
    s, _, _ = emitter.buffers
    emitter.do(Op.ABS, s, emitter.x)
    emitter.do(Op.ADD, s, s, 1.0)
    emitter.do(Op.DIV, emitter.result, emitter.x, s)


def _sign(emitter: FloatEmitter) -> None:
    s, t, _ = emitter.buffers
    emitter.do(Op.SELECT_GREATER, s, emitter.x, 0.0, third=1.0)
    emitter.do(Op.SELECT_LESS, t, emitter.x, 0.0, third=1.0)
    emitter.do(Op.SUB, emitter.result, s, t)


SERIES: Mapping[str, Series] = {
    "COS": Series(_cosine, _COSINE),
    "ERF": Series(lambda emitter: _error_function(emitter, emitter.x), _ERROR),
    "GELU": Series(_gelu, _ERROR),
    "LN": Series(emit_logarithm, LOGARITHM),
    "LOG_SIGMOID": Series(_log_sigmoid, _UNIT_LOGARITHM),
    "MISH": Series(_mish),
    "SIGN": Series(_sign),
    "SIN": Series(_sine, _SINE),
    "SOFT_PLUS": Series(lambda emitter: _soft_plus(emitter, emitter.x, 1.0), _UNIT_LOGARITHM),
    "SOFT_SIGN": Series(_soft_sign),
    "TGELU": Series(_tanh_gelu),
}

__all__ = ["LOGARITHM", "SERIES", "Series", "emit_logarithm", "table_bytes", "table_row"]
