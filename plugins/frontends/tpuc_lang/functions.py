"""Unary element-wise functions, and softmax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tpuc.api import Op
from tpuc_importing.finding import functions_of
from tpuc_ops import top
from tpuc_ops.elementwise import Function
from tpuc_ops.shapes import positive_axis

from tpuc_lang.choices import lut
from tpuc_lang.graph import LangError, Scalar, Tensor, constant, floats_only, limits_of, make_one, number_of, once
from tpuc_lang.stored import AWAY, BYTES, parameters, quantized, real, rounded, saturated, scaled

PLAIN = ("abs", "arccos", "arctanh", "round", "tan")
"""Functions of floats only; the others also take quantized integers."""
ENTRIES = 256
"""Number of entries in a byte table."""
ROUNDING = ("gelu", "sigmoid", "tanh")
"""Functions that state how their integers are rounded."""


def relu(input: Tensor, out_name: str | None = None) -> Tensor:  # noqa: A002  # the interface's name
    """`max(x, 0)`. For integers, 0 is the zero point."""
    where = "relu"
    if not input.is_integer:
        return _of(where, top.Relu(), input, out_name)
    offsets = input.quantization.zero_point or (0,)
    if len(offsets) != 1:
        raise LangError(f"{where}: tensor '{input.name}' has several zero points; use tl.dequantize first.")
    op = top.MaxConst(const_val=float(offsets[0]))
    return make_one(where, op, [input], out_name, dtype=input.dtype, quantization=input.quantization)


def relu6(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """`x` clipped to 0 and 6."""
    return _of("relu6", top.Relu(relu_limit=6.0), tensor_i, out_name)


def leaky_relu(
    input: Tensor,  # noqa: A002  # the interface's name
    negative_slope: float = 0.01,
    out_name: str | None = None,
    round_mode: str = AWAY,
) -> Tensor:
    """`negative_slope * x` below 0; rounded for integers without a zero point."""
    where = "leaky_relu"
    op = top.LeakyRelu(alpha=negative_slope)
    if not input.is_integer:
        return _of(where, op, input, out_name)
    if any(input.quantization.zero_point or ()):
        raise LangError(f"{where}: tensor '{input.name}' has a zero point; use tl.dequantize first.")
    whole = rounded(where, make_one(where, op, [input]), round_mode)
    return saturated(where, whole, input.dtype, out_name, input.quantization)


def prelu(input: Tensor, slope: Tensor, out_name: str | None = None) -> Tensor:  # noqa: A002  # the interface's name
    """`slope * x` below 0; the slope broadcasts."""
    return make_one("prelu", top.PRelu(), [input, slope], out_name, dtype=floats_only("prelu", input, slope))


def elu(
    input: Tensor,  # noqa: A002  # the interface's name
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """`exp(x) - 1` below 0."""
    return _valued("elu", lambda x: _of("elu", top.Elu(alpha=1.0), x), input, scale, zero_point, out_name)


def hsigmoid(
    input: Tensor,  # noqa: A002  # the interface's name
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """`x / 6 + 0.5`, clipped to 0 and 1."""
    op = top.HardSigmoid(alpha=1 / 6, beta=0.5)
    return _valued("hsigmoid", lambda x: _of("hsigmoid", op, x), input, scale, zero_point, out_name)


def square(
    input: Tensor,  # noqa: A002  # the interface's name
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """`x * x`."""
    where = "square"
    return _valued(where, lambda x: make_one(where, top.Mul(), [x, x]), input, scale, zero_point, out_name)


def pow(tensor_i: Tensor, exponent: float, out_name: str | None = None) -> Tensor:  # noqa: A001  # as Python calls it
    """`x ** exponent`."""
    return _of("pow", top.Pow(exponent=exponent), tensor_i, out_name)


def swish(
    input: Tensor,  # noqa: A002  # the interface's name
    beta: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    round_mode: str = AWAY,
    out_name: str | None = None,
) -> Tensor:
    """`x * sigmoid(beta * x)`."""
    where, factor = "swish", number_of(beta)

    def value(x: Tensor) -> Tensor:
        if factor == 1.0:
            return _of(where, top.SiLU(), x)
        share = _of(where, top.Sigmoid(), scaled(where, x, [factor], 0))
        return make_one(where, top.Mul(), [x, share])

    return _valued(where, value, input, scale, zero_point, out_name, round_mode)


def log_sigmoid(
    input: Tensor,  # noqa: A002  # the interface's name
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """`-log(1 + exp(-x))`."""
    where = "log_sigmoid"

    def value(x: Tensor) -> Tensor:
        return scaled(where, _of(where, top.Softplus(), scaled(where, x, [-1.0], 0)), [-1.0], 0)

    return _valued(where, value, input, scale, zero_point, out_name)


def softmax(input: Tensor, axis: int, out_name: str | None = None) -> Tensor:  # noqa: A002  # the interface's name
    """`exp(x)` divided by its sum along an axis."""
    return _of("softmax", _softmax("softmax", input, axis), input, out_name)


def softmax_int(
    input: Tensor,  # noqa: A002  # the interface's name
    axis: int,
    scale: Sequence[float],
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    round_mode: str = AWAY,
) -> Tensor:
    """As `softmax`, for integers with the scales of operand and result."""
    where = "softmax_int"
    if not input.is_integer:
        raise LangError(f"{where}: tensor '{input.name}' is {input.dtype}; use tl.softmax.")
    op = _softmax(where, input, axis)
    return _valued(where, lambda x: _of(where, op, x), input, scale, zero_point, out_name, round_mode, False)


def _softmax(where: str, x: Tensor, axis: int) -> Op:
    rank = len(x.shape)
    return top.Softmax(axis=once(where, lambda: positive_axis(axis, rank)))


@functools.cache
def function(name: str) -> Callable[..., Tensor]:
    """Return the unary function with the name stated in its op's file; raises AttributeError if there is none."""
    op = function_ops().get(name)
    if op is None:
        raise AttributeError(f"module 'tpuc_lang' has no function '{name}'")

    def of_floats(input: Tensor, out_name: str | None = None) -> Tensor:  # noqa: A002  # the interface's name
        if name == "abs" and input.is_integer:
            return _whole_size(input, out_name)
        return _of(name, op(), input, out_name)

    def of_values(
        input: Tensor,  # noqa: A002  # the interface's name
        scale: Sequence[float] | None = None,
        zero_point: Sequence[int] | None = None,
        out_name: str | None = None,
    ) -> Tensor:
        return _valued(name, lambda x: _of(name, op(), x), input, scale, zero_point, out_name)

    def of_rounded_values(
        input: Tensor,  # noqa: A002  # the interface's name
        scale: Sequence[float] | None = None,
        zero_point: Sequence[int] | None = None,
        out_name: str | None = None,
        round_mode: str = AWAY,
    ) -> Tensor:
        return _valued(name, lambda x: _of(name, op(), x), input, scale, zero_point, out_name, round_mode)

    call: Callable[..., Tensor] = of_floats if name in PLAIN else of_rounded_values if name in ROUNDING else of_values
    call.__name__, call.__doc__ = name, op.__doc__
    return call


@functools.cache
def function_ops() -> Mapping[str, type[Function]]:
    """Return the ops of functions without parameters, by the names stated in their files."""
    return functions_of(top.DIALECT, "tpulang")


def _whole_size(x: Tensor, out_name: str | None) -> Tensor:
    """Return the magnitudes of integers, saturated to their type."""
    if any(x.quantization.zero_point or ()):
        raise LangError(f"abs: tensor '{x.name}' has a zero point; use tl.dequantize first.")
    return saturated("abs", make_one("abs", top.Abs(), [x]), x.dtype, out_name, x.quantization)


def _valued(
    where: str,
    value: Callable[[Tensor], Tensor],
    x: Tensor,
    scale: Sequence[float] | None,
    zero_point: Sequence[int] | None,
    out_name: str | None,
    round_mode: str = AWAY,
    by_element: bool = True,
) -> Tensor:
    """Apply a function of floats, or of real values of scaled integers; the result has the operand's type.

    For bytes it is a lookup table, which is exact on every chip.
    """
    if scale is None:
        dtype = floats_only(where, x)
        result = value(x)
        result.dtype = dtype
        return _named(result, out_name)
    points = (0, 0) if zero_point is None else tuple(zero_point)
    if len(scale) != 2 or len(points) != 2:
        raise LangError(f"{where}: scale and zero_point have two numbers each, of the operand and the result.")
    x.set_quantization(where, scale[0], points[0])
    meaning = parameters(where, scale[1], points[1])
    if x.dtype not in BYTES or not by_element:
        return quantized(where, value(real(where, x)), meaning, x.dtype, out_name, round_mode)
    numbers = constant(np.arange(ENTRIES).astype(np.uint8).astype(x.dtype), None, x.dtype)
    low, high = ((limit - points[1]) * scale[1] for limit in limits_of(x.dtype))
    results = _within(where, value(real(where, numbers, scale[0], points[0])), low - scale[1], high + scale[1])
    table = quantized(where, results, meaning, x.dtype, None, round_mode)
    return lut(x, table, out_name)


def _within(where: str, x: Tensor, low: float, high: float) -> Tensor:
    """Clip table entries to bounds; undefined values become 0."""
    is_number = make_one(where, top.Compare(mode="Equal"), [x, x])
    number = make_one(where, top.Where(y_is_const=True), [is_number, x, None])
    return make_one(where, top.Clip(min=low, max=high), [number])


def _named(result: Tensor, name: str | None) -> Tensor:
    """Rename a result that nobody has read yet."""
    if name is not None:
        result.rename(name)
    return result


def _of(where: str, op: Op, tensor: Tensor, out_name: str | None = None) -> Tensor:
    return make_one(where, op, [tensor], out_name, dtype=floats_only(where, tensor))
