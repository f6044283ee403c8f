"""Functions of one tensor, element by element; and softmax. Those without numbers of their own have one form."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Protocol

from tpuc.api import Op
from tpuc_importing.finding import functions_of
from tpuc_ops import top
from tpuc_ops.elementwise import Function
from tpuc_ops.shapes import positive_axis

from tpuc_lang.graph import LangError, Tensor, floats_only, make_one, once


def relu(tensor_i: Tensor, relu_limit: float = -1.0, out_name: str | None = None) -> Tensor:
    """`max(x, 0)`, cut off at a positive limit. Of integers, 0 is the zero point."""
    where = "relu"
    if not tensor_i.is_integer:
        return make_one(where, top.Relu(relu_limit=relu_limit), [tensor_i], out_name, dtype=tensor_i.dtype)
    offsets = tensor_i.quantisation.zero_point or (0,)
    if len(offsets) != 1 or relu_limit > 0:
        raise LangError(
            f"{where}: tensor '{tensor_i.name}' is {tensor_i.dtype}; its limit and offsets need tl.dequantize."
        )
    op = top.MaxConst(const_val=float(offsets[0]))
    return make_one(where, op, [tensor_i], out_name, dtype=tensor_i.dtype, quantisation=tensor_i.quantisation)


def relu6(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """Cut off at 0 and 6."""
    return relu(tensor_i, 6.0, out_name)


def leaky_relu(tensor_i: Tensor, alpha: float = 0.01, out_name: str | None = None) -> Tensor:
    """`alpha * x` below 0."""
    return _of("leaky_relu", top.LeakyRelu(alpha=alpha), tensor_i, out_name)


def prelu(tensor_i: Tensor, slope: Tensor, out_name: str | None = None) -> Tensor:
    """`slope * x` below 0; the slope broadcasts."""
    dtype = floats_only("prelu", tensor_i, slope)
    return make_one("prelu", top.PRelu(), [tensor_i, slope], out_name, dtype=dtype)


def elu(tensor_i: Tensor, alpha: float = 1.0, out_name: str | None = None) -> Tensor:
    """`alpha * (exp(x) - 1)` below 0."""
    return _of("elu", top.Elu(alpha=alpha), tensor_i, out_name)


def hsigmoid(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """`x / 6 + 0.5` within 0 and 1."""
    return _of("hsigmoid", top.HardSigmoid(alpha=1 / 6, beta=0.5), tensor_i, out_name)


def square(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """`x * x`."""
    dtype = floats_only("square", tensor_i)
    return make_one("square", top.Mul(), [tensor_i, tensor_i], out_name, dtype=dtype)


def pow(tensor_i: Tensor, exponent: float, out_name: str | None = None) -> Tensor:  # noqa: A001  # the interface's name
    """`x ** exponent`."""
    return _of("pow", top.Pow(exponent=exponent), tensor_i, out_name)


def clip(tensor_i: Tensor, min: float, max: float, out_name: str | None = None) -> Tensor:  # noqa: A002
    """Within two bounds."""
    if min > max:
        raise LangError(f"clip: its bounds are {min:g} and {max:g}; give the smaller one first.")
    return _of("clip", top.Clip(min=float(min), max=float(max)), tensor_i, out_name)


clamp = clip


def swish(tensor_i: Tensor, beta: float = 1.0, out_name: str | None = None) -> Tensor:
    """`x * sigmoid(beta * x)`."""
    dtype = floats_only("swish", tensor_i)
    if beta == 1.0:
        return _of("swish", top.SiLU(), tensor_i, out_name)
    share = _of("swish", top.Sigmoid(), _of("swish", top.MulConst(const_val=float(beta)), tensor_i, None), None)
    return make_one("swish", top.Mul(), [tensor_i, share], out_name, dtype=dtype)


def log_sigmoid(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """`-log(1 + exp(-x))`."""
    softened = _of(
        "log_sigmoid", top.Softplus(), _of("log_sigmoid", top.MulConst(const_val=-1.0), tensor_i, None), None
    )
    return _of("log_sigmoid", top.MulConst(const_val=-1.0), softened, out_name)


def softmax(tensor_i: Tensor, axis: int = -1, beta: float = 1.0, out_name: str | None = None) -> Tensor:
    """`exp(beta * x)` divided by its sum along an axis."""
    where = "softmax"
    rank = len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    return _of(where, top.Softmax(axis=place, beta=beta), tensor_i, out_name)


class FunctionOfOne(Protocol):
    """What `function` gives."""

    def __call__(self, tensor_i: Tensor, out_name: str | None = None) -> Tensor: ...


@functools.cache
def function(name: str) -> FunctionOfOne:
    """The function of one number whose op's file gives it this name; raises AttributeError when there is none."""
    op = function_ops().get(name)
    if op is None:
        raise AttributeError(f"module 'tpuc_lang' has no function '{name}'")

    def call(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
        return _of(name, op(), tensor_i, out_name)

    call.__name__, call.__doc__ = name, op.__doc__
    return call


@functools.cache
def function_ops() -> Mapping[str, type[Function]]:
    """The ops of functions without numbers of their own, by the names that their files give them."""
    return functions_of(top.DIALECT, "tpulang")


def _of(where: str, op: Op, tensor: Tensor, out_name: str | None) -> Tensor:
    return make_one(where, op, [tensor], out_name, dtype=floats_only(where, tensor))
