"""Tangent, inverse trigonometric and hyperbolic functions of f32 tensors, from short polynomials and the logarithm.

Relative errors are within 4e-6: for inverse trigonometric functions up to magnitude 1 (beyond, arguments behave like
the nearest end), hyperbolic functions up to magnitude 88, their inverses up to 1e18, and tangents up to magnitude 100.
For larger x, the tangent is that of a point within a relative distance of 4e-8 from x.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, SpecialFunction, SpecialOp
from tpuc_bm1684x.isa.geometry import EU_BYTES
from tpuc_bm1684x.kernels.emitter import FloatEmitter
from tpuc_bm1684x.kernels.exponential import emit_square_root
from tpuc_bm1684x.kernels.series import LOGARITHM, Series, emit_logarithm

Op = ArithmeticOp

# Coefficients from the constant upwards, by interpolation at Chebyshev nodes; errors in f32 are below 1e-7.
_ARCTAN = (  # atan(r) / r of r**2 up to 1
    0.999999999554, -0.333333224889, 0.199995581004, -0.142785760248, 0.110507712758, -0.087850432828,
    0.0668528151945, -0.0439284107584, 0.0219129458866, -0.00703066947947, 0.00105760743955,
)  # fmt: skip
_ARCTANH = (  # atanh(r) / r of r**2 up to 1/4
    0.999999999926, 0.333333370936, 0.199996869821, 0.14295556578, 0.10960898342, 0.103128705214, 0.0237805118171,
    0.176674026013,
)  # fmt: skip
_ARCSINH = (  # asinh(r) / r of r**2 up to 1/4
    0.999999999947, -0.16666664571, 0.0749986444958, -0.0446096296017, 0.0299877219524, -0.0198964773387,
    0.00906215758324,
)  # fmt: skip
_SINH = (1.00000000005, 0.166666664181, 0.00833335320553, 0.000198357138733, 2.81901880361e-06)  # r**2 up to 1
_SINE = (0.999999999995, -0.166666666285, 0.00833332848614, -0.000198391135094, 2.71653275702e-06)  # r up to pi / 4
_COSINE = (1.0, -0.499999999993, 0.0416666665331, -0.00138888798393, 2.4798814306e-05, -2.71652654849e-07)

_FLOATS_OF_VECTOR = EU_BYTES // 4
_SIGN = -(1 << 31)
_STEEPEST = 88.0  # e**88 is below the greatest f32
_QUARTER_HIGH = 1.5703125  # of pi / 2: a product with up to 2**16 quarters is exact
_QUARTER_LOW = math.pi / 2 - _QUARTER_HIGH


def _vectors(*polynomials: tuple[float, ...]) -> tuple[float, ...]:
    """Concatenate polynomials, each padded to start at a vector."""
    row: list[float] = []
    for polynomial in polynomials:
        row += [*polynomial, *(0.0,) * (-len(polynomial) % _FLOATS_OF_VECTOR)]
    return tuple(row)


def _polynomial(emitter: FloatEmitter, result: Operand, x: Operand, terms: int, vector: int = 0) -> None:
    """Evaluate the polynomial that starts `vector` vectors after the first one."""
    table = emitter.table + EU_BYTES * (1 + vector)
    emitter.asm.record(
        SpecialFunction(
            operation=SpecialOp.POLYNOMIAL, shape=emitter.shape, result=result, input=x, terms=terms, table=table
        )
    )


def _buffers(emitter: FloatEmitter) -> tuple[Operand, Operand, Operand, Operand]:
    """Four f32 buffers; the first two are those of the exponential."""
    s, t, n = emitter.buffers
    assert emitter.extra is not None
    return s, t, Operand(n.address, DType.F32), emitter.extra


def _sign_of_x(emitter: FloatEmitter) -> None:
    """Give the non-negative result the sign of `x`."""
    _, _, n = emitter.buffers
    x, result = (Operand(operand.address, DType.INT32) for operand in (emitter.x, emitter.result))
    emitter.integers(Op.AND, n, x, _SIGN)
    emitter.integers(Op.OR, result, result, n)


def _arc(emitter: FloatEmitter, opposite: Operand, adjacent: Operand | float) -> None:
    """``atan(opposite / adjacent)`` of non-negative numbers, which may be in the result and in the extra buffer."""
    s, t, n, _ = _buffers(emitter)
    emitter.do(Op.MIN, s, opposite, adjacent)
    emitter.do(Op.MAX, t, opposite, adjacent)
    emitter.do(Op.DIV, s, s, t)
    emitter.do(Op.MUL, t, s, s)
    _polynomial(emitter, n, t, len(_ARCTAN))
    emitter.do(Op.MUL, s, s, n)
    emitter.do(Op.SELECT_GREATER, t, opposite, adjacent, third=1.0)
    emitter.do(Op.MUL, n, s, -2.0)
    emitter.do(Op.ADD, n, n, math.pi / 2)
    emitter.do(Op.MUL, n, n, t)
    emitter.do(Op.ADD, emitter.result, s, n)


def _one_less_square(emitter: FloatEmitter, result: Operand) -> None:
    """``sqrt((1 - x) (1 + x))``, or 0 where that is negative."""
    s, t, _, _ = _buffers(emitter)
    emitter.do(Op.SUB, s, 1.0, emitter.x)
    emitter.do(Op.ADD, t, emitter.x, 1.0)
    emitter.do(Op.MUL, s, s, t)
    emitter.do(Op.MAX, s, s, 0.0)
    emit_square_root(emitter.asm, emitter.shape, result, s)


def _arctan(emitter: FloatEmitter) -> None:
    extra = _buffers(emitter)[3]
    emitter.do(Op.ABS, extra, emitter.x)
    _arc(emitter, extra, 1.0)
    _sign_of_x(emitter)


def _arcsin(emitter: FloatEmitter) -> None:
    """``atan(x / sqrt(1 - x**2))``."""
    extra = _buffers(emitter)[3]
    _one_less_square(emitter, emitter.result)
    emitter.do(Op.ABS, extra, emitter.x)
    _arc(emitter, extra, emitter.result)
    _sign_of_x(emitter)


def _arccos(emitter: FloatEmitter) -> None:
    """The angle of ``(x, sqrt(1 - x**2))``; for negative x, pi minus the angle of ``
    x
    ``.
    """
    s, t, _, extra = _buffers(emitter)
    _one_less_square(emitter, extra)
    emitter.do(Op.ABS, emitter.result, emitter.x)
    _arc(emitter, extra, emitter.result)
    emitter.do(Op.SELECT_LESS, s, emitter.x, 0.0, third=1.0)
    emitter.do(Op.MUL, t, emitter.result, -2.0)
    emitter.do(Op.ADD, t, t, math.pi)
    emitter.do(Op.MUL, t, t, s)
    emitter.do(Op.ADD, emitter.result, emitter.result, t)


def _small(emitter: FloatEmitter, limit: float, terms: int, vector: int) -> None:
    """Below `limit`, use the magnitude times a polynomial of its square, else keep the result; then apply the sign
    of x.
    """
    s, t, n, extra = _buffers(emitter)
    emitter.do(Op.ABS, s, emitter.x)
    emitter.do(Op.SELECT_LESS, extra, s, limit, third=1.0)
    emitter.do(Op.MIN, s, s, limit)
    emitter.do(Op.MUL, t, s, s)
    _polynomial(emitter, n, t, terms, vector)
    emitter.do(Op.MUL, s, s, n)
    emitter.do(Op.MUL, s, s, extra)
    emitter.do(Op.SUB, t, 1.0, extra)
    emitter.do(Op.MUL, emitter.result, emitter.result, t)
    emitter.do(Op.ADD, emitter.result, emitter.result, s)
    _sign_of_x(emitter)


def _logarithm_of(emitter: FloatEmitter, x: Operand) -> None:
    emit_logarithm(dataclasses.replace(emitter, x=x))


def _arctanh(emitter: FloatEmitter) -> None:
    """``log((1 + |x|) / (1 - |x|)) / 2``."""
    s, t, _, extra = _buffers(emitter)
    emitter.do(Op.ABS, t, emitter.x)
    emitter.do(Op.ADD, s, t, 1.0)
    emitter.do(Op.SUB, t, 1.0, t)
    emitter.do(Op.DIV, extra, s, t)
    _logarithm_of(emitter, extra)
    emitter.do(Op.MUL, emitter.result, emitter.result, 0.5)
    _small(emitter, 0.5, len(_ARCTANH), 1)


def _arcsinh(emitter: FloatEmitter) -> None:
    """``log(|x| + sqrt(x**2 + 1))``."""
    s, t, _, extra = _buffers(emitter)
    emitter.do(Op.MUL, s, emitter.x, emitter.x)
    emitter.do(Op.ADD, s, s, 1.0)
    emit_square_root(emitter.asm, emitter.shape, t, s)
    emitter.do(Op.ABS, s, emitter.x)
    emitter.do(Op.ADD, extra, s, t)
    _logarithm_of(emitter, extra)
    _small(emitter, 0.5, len(_ARCSINH), 1)


def _arccosh(emitter: FloatEmitter) -> None:
    """``log(x + sqrt((x - 1) (x + 1)))``."""
    s, t, _, extra = _buffers(emitter)
    emitter.do(Op.SUB, s, emitter.x, 1.0)
    emitter.do(Op.ADD, t, emitter.x, 1.0)
    emitter.do(Op.MUL, s, s, t)
    emitter.do(Op.MAX, s, s, 0.0)
    emit_square_root(emitter.asm, emitter.shape, t, s)
    emitter.do(Op.ADD, extra, emitter.x, t)
    _logarithm_of(emitter, extra)


def _exponentials(emitter: FloatEmitter) -> tuple[Operand, Operand]:
    """``e**
    x
    `` and ``e**-
    x
    ``.
    """
    s, t, _, _ = _buffers(emitter)
    emitter.do(Op.ABS, s, emitter.x)
    emitter.do(Op.MIN, s, s, _STEEPEST)
    emitter.exponential_of_s(t)
    emitter.do(Op.DIV, s, 1.0, t)
    return t, s


def _sinh(emitter: FloatEmitter) -> None:
    growing, falling = _exponentials(emitter)
    emitter.do(Op.SUB, emitter.result, growing, falling)
    emitter.do(Op.MUL, emitter.result, emitter.result, 0.5)
    _small(emitter, 1.0, len(_SINH), 0)


def _cosh(emitter: FloatEmitter) -> None:
    growing, falling = _exponentials(emitter)
    emitter.do(Op.ADD, emitter.result, growing, falling)
    emitter.do(Op.MUL, emitter.result, emitter.result, 0.5)


def _tan(emitter: FloatEmitter) -> None:
    """Subtract quarter turns: for an even number, sine over cosine; for an odd number, minus cosine over sine."""
    s, t, n, extra = _buffers(emitter)
    result = emitter.result
    emitter.do(Op.MUL, n, emitter.x, 2 / math.pi)
    emitter.do(Op.CAST, n, n)  # between equal float types it rounds to whole numbers
    emitter.do(Op.MUL, t, n, _QUARTER_HIGH)
    emitter.do(Op.SUB, t, emitter.x, t)
    emitter.do(Op.MUL, s, n, _QUARTER_LOW)
    emitter.do(Op.SUB, t, t, s)
    emitter.do(Op.MUL, s, t, t)
    _polynomial(emitter, result, s, len(_SINE))
    emitter.do(Op.MUL, result, result, t)
    _polynomial(emitter, t, s, len(_COSINE), 1)
    emitter.do(Op.MUL, n, n, 0.5)
    emitter.do(Op.CAST, s, n)
    emitter.do(Op.SUB, s, s, n)
    emitter.do(Op.ABS, s, s)
    emitter.do(Op.ADD, s, s, s)  # 1 where the number is odd
    emitter.do(Op.SUB, n, 1.0, s)
    emitter.do(Op.MUL, extra, n, result)
    emitter.do(Op.MUL, n, n, t)
    emitter.do(Op.MUL, t, t, s)
    emitter.do(Op.SUB, extra, extra, t)
    emitter.do(Op.MUL, s, s, result)
    emitter.do(Op.ADD, s, s, n)
    emitter.do(Op.DIV, result, extra, s)


HYPERBOLIC: Mapping[str, Series] = {
    "ARCCOS": Series(_arccos, _ARCTAN),
    "ARCCOSH": Series(_arccosh, LOGARITHM),
    "ARCSIN": Series(_arcsin, _ARCTAN),
    "ARCSINH": Series(_arcsinh, _vectors(LOGARITHM, _ARCSINH)),
    "ARCTAN": Series(_arctan, _ARCTAN),
    "ARCTANH": Series(_arctanh, _vectors(LOGARITHM, _ARCTANH)),
    "COSH": Series(_cosh),
    "SINH": Series(_sinh, _SINH),
    "TAN": Series(_tan, _vectors(_SINE, _COSINE)),
}
"""Series by the mode of `tpu.Active`. All of them use the extra buffer."""
