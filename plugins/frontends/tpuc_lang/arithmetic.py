"""Element-wise arithmetic, comparisons, products, normalisations, reductions and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import Op
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_lang.graph import (
    FLOATS,
    LangError,
    Tensor,
    constant,
    floats_only,
    make,
    make_one,
    once,
    same_meaning,
)

Operand: TypeAlias = "Tensor | float | int"


def add(*tensors: Operand, coeff: Sequence[float] | None = None, out_name: str | None = None) -> Tensor:
    """The sum of two tensors or more, each times its factor if given; or of a tensor and a number."""
    if len(tensors) == 2 and coeff is None:
        tensor, number = _with_number(tensors)
        if tensor is not None:
            return _float_op("add", top.AddConst(const_val=number), [tensor], out_name)
    given = _tensors("add", tensors)
    factors = None if coeff is None else tuple(float(one) for one in coeff)
    return _float_op("add", top.Add(coeff=factors), given, out_name)


def mul(*tensors: Operand, out_name: str | None = None) -> Tensor:
    """The product of two tensors or more, or of a tensor and a number."""
    tensor, number = _with_number(tensors)
    if tensor is not None:
        return _float_op("mul", top.MulConst(const_val=number), [tensor], out_name)
    return _float_op("mul", top.Mul(), _tensors("mul", tensors), out_name)


def sub(tensor_i0: Operand, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """The difference; one of both may be a number."""
    tensor, number = _with_number((tensor_i0, tensor_i1))
    if tensor is not None:
        op = top.SubConst(const_val=number, is_reverse=tensor is tensor_i1)
        return _float_op("sub", op, [tensor], out_name)
    return _float_op("sub", top.Sub(), _tensors("sub", (tensor_i0, tensor_i1)), out_name)


def div(tensor_i0: Operand, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """The quotient; one of both may be a number."""
    tensor, number = _with_number((tensor_i0, tensor_i1))
    if tensor is None:
        return _float_op("div", top.Div(), _tensors("div", (tensor_i0, tensor_i1)), out_name)
    if tensor is tensor_i1:
        return _float_op("div", top.Reciprocal(const_val=number), [tensor], out_name)
    if number == 0:
        raise LangError("div: the divisor is 0.")
    return _float_op("div", top.MulConst(const_val=1.0 / number), [tensor], out_name)


def max(*tensors: Operand, out_name: str | None = None) -> Tensor:  # noqa: A001  # the interface's name
    """The larger of tensors, or of a tensor and a number."""
    return _extreme("max", tensors, out_name)


def min(*tensors: Operand, out_name: str | None = None) -> Tensor:  # noqa: A001  # the interface's name
    """The smaller of tensors, or of a tensor and a number."""
    return _extreme("min", tensors, out_name)


def _extreme(where: str, tensors: Sequence[Operand], out_name: str | None) -> Tensor:
    largest = where == "max"
    tensor, number = _with_number(tensors)
    if tensor is not None:
        op: Op = top.MaxConst(const_val=number) if largest else top.MinConst(const_val=number)
        return make_one(where, op, [tensor], out_name, dtype=tensor.dtype, quantisation=tensor.quantisation)
    given = _tensors(where, tensors)
    meaning = same_meaning(where, given)
    return make_one(
        where, top.Max() if largest else top.Min(), given, out_name, dtype=given[0].dtype, quantisation=meaning
    )


def compare(tensor_i0: Tensor, tensor_i1: Operand, mode: str, out_name: str | None = None) -> Tensor:
    """1 where the relation (`Greater`, `Less`, `Equal`, ...) holds, else 0."""
    if isinstance(tensor_i1, Tensor):
        same_meaning("compare", [tensor_i0, tensor_i1])
        return make_one("compare", top.Compare(mode=mode), [tensor_i0, tensor_i1], out_name)
    return make_one("compare", top.CompareConst(mode=mode, const_val=float(tensor_i1)), [tensor_i0], out_name)


# Products


def matmul(
    tensor_i0: Tensor,
    tensor_i1: Tensor,
    bias: Tensor | None = None,
    left_transpose: bool = False,
    right_transpose: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """The matrix product over the last two dimensions, plus the bias."""
    op = top.MatMul(left_transpose=left_transpose, right_transpose=right_transpose)
    return _float_op("matmul", op, [tensor_i0, tensor_i1, bias], out_name)


# Normalisations


def batch_norm(
    tensor_i: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    out_name: str | None = None,
) -> Tensor:
    """With fixed statistics per channel."""
    operands = [tensor_i, mean, variance, gamma, beta]
    return _float_op("batch_norm", top.BatchNorm(epsilon=epsilon), operands, out_name)


def scale(tensor_i: Tensor, factor: Tensor, bias: Tensor | None = None, out_name: str | None = None) -> Tensor:
    """`x * factor + bias` per channel."""
    return _float_op("scale", top.Scale(), [tensor_i, factor, bias], out_name)


def layer_norm(
    tensor_i: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    axis: int = -1,
    out_name: str | None = None,
) -> Tensor:
    """Over all dimensions from `axis` on."""
    rank = len(tensor_i.shape)
    first = once("layer_norm", lambda: positive_axis(axis, rank))
    op = top.LayerNorm(axis=first, normalized_shape=tensor_i.shape[first:], eps=epsilon)
    return _float_op("layer_norm", op, [tensor_i, gamma, beta], out_name)


def group_norm(
    tensor_i: Tensor,
    num_groups: int,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    out_name: str | None = None,
) -> Tensor:
    """Over groups of neighbouring channels."""
    return _float_op("group_norm", top.GroupNorm(num_groups=num_groups, eps=epsilon), [tensor_i, gamma, beta], out_name)


def rms_norm(
    tensor_i: Tensor, gamma: Tensor | None = None, epsilon: float = 1e-5, out_name: str | None = None
) -> Tensor:
    """By the root of the mean square of the last dimension."""
    return _float_op("rms_norm", top.RMSNorm(eps=epsilon), [tensor_i, gamma], out_name)


def lrn(
    tensor_i: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    out_name: str | None = None,
) -> Tensor:
    """By the squares of neighbouring channels."""
    return _float_op("lrn", top.LRN(size=size, alpha=alpha, beta=beta, bias=bias), [tensor_i], out_name)


def reduce(
    tensor_i: Tensor,
    axes: int | Sequence[int],
    method: str = "ReduceMean",
    keep_dims: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Some dimensions to one value: ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2."""
    wanted = (axes,) if isinstance(axes, int) else tuple(axes)
    op = top.Reduce(axes=wanted, mode=method, keepdims=keep_dims)
    return _float_op("reduce", op, [tensor_i], out_name)


def lstm(
    tensor_i: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    bidirectional: bool = False,
    batch_first: bool = False,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """All h, the last h and the last c of a long short-term memory; operands as `top.LSTM` has them."""
    if len(recurrence.shape) != 3:
        raise LangError(f"lstm: the recurrence is {list(recurrence.shape)}; give [directions, 4 * hidden, hidden].")
    op = top.LSTM(
        hidden_size=recurrence.shape[2],
        have_bias=bias is not None,
        bidirectional=bidirectional,
        batch_first=batch_first,
    )
    operands = [tensor_i, weight, recurrence, bias, initial_h, initial_c]
    y, h, c = make("lstm", op, [*operands, None], out_name, dtype=floats_only("lstm", *operands))
    return y, h, c


# Operands


def _float_op(where: str, op: Op, operands: Sequence[Tensor | None], out_name: str | None) -> Tensor:
    return make_one(where, op, operands, out_name, dtype=floats_only(where, *operands))


def _with_number(operands: Sequence[Operand]) -> tuple[Tensor | None, float]:
    """The tensor and the number, if these are one of each."""
    tensors = [one for one in operands if isinstance(one, Tensor)]
    numbers = [one for one in operands if not isinstance(one, Tensor)]
    return (tensors[0], float(numbers[0])) if len(tensors) == len(numbers) == 1 else (None, 0.0)


def _tensors(where: str, operands: Sequence[Operand]) -> list[Tensor]:
    if len(operands) < 2:
        raise LangError(f"{where}: it has {len(operands)} operands; give two or more.")
    given = [one if isinstance(one, Tensor) else constant(np.float32(one).reshape(1)) for one in operands]
    dtypes = {one.dtype for one in given if one.dtype in FLOATS}
    if len(dtypes) > 1:
        raise LangError(f"{where}: its operands are {' and '.join(sorted(dtypes))}; cast one of them.")
    return given
