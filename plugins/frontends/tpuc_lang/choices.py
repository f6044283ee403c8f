"""Relations and logic, choices by them, order, and elements by place. True is 1 and false is 0."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_lang.arithmetic import Operand, compare
from tpuc_lang.arrangement import gather
from tpuc_lang.graph import LangError, Tensor, constant, floats_only, make, make_one, once, same_meaning


def gt(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Is it greater than the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "Greater", out_name)


def ge(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Is it at least the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "GreaterOrEqual", out_name)


def lt(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Is it less than the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "Less", out_name)


def le(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Is it at most the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "LessOrEqual", out_name)


def eq(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Is it equal to the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "Equal", out_name)


def ne(tensor_i0: Tensor, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Does it differ from the other tensor, or a number?"""
    return compare(tensor_i0, tensor_i1, "NotEqual", out_name)


def and_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Are both true?"""
    return make_one("and_op", top.Compare(mode="And"), [tensor_i0, tensor_i1], out_name)


def or_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Is one of both true?"""
    return make_one("or_op", top.Compare(mode="Or"), [tensor_i0, tensor_i1], out_name)


def xor_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Is just one of both true?"""
    return make_one("xor_op", top.Compare(mode="Xor"), [tensor_i0, tensor_i1], out_name)


def not_op(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """Is it false?"""
    return make_one("not_op", top.CompareConst(mode="Equal", const_val=0.0), [tensor_i], out_name)


def cond_select(cond: Tensor, tbrn: Operand, fbrn: Operand, out_name: str | None = None) -> Tensor:
    """`tbrn` where the condition is true, else `fbrn`; both are tensors or numbers, and all broadcast."""
    where = "cond_select"
    branches = [one if isinstance(one, Tensor) else constant(np.float32(one).reshape(1)) for one in (tbrn, fbrn)]
    dtype = floats_only(where, *branches)
    return make_one(where, top.Where(), [cond, *branches], out_name, dtype=dtype)


# Order


def arg(
    tensor_i: Tensor, method: str = "max", axis: int = 0, keep_dims: bool = True, out_name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The first place of the largest or smallest value (method max or min) along an axis, and the value."""
    where, rank = "arg", len(tensor_i.shape)
    if method not in ("max", "min"):
        raise LangError(f"{where}: method '{method}' is not known; use max or min.")
    place = once(where, lambda: positive_axis(axis, rank))
    op = top.Arg(axis=place, keepdims=keep_dims, mode="ArgMax" if method == "max" else "ArgMin")
    index, value = make(where, op, [tensor_i], out_name, dtype=floats_only(where, tensor_i))
    return index, value


def topk(tensor_i: Tensor, axis: int, k: int, out_name: str | None = None) -> tuple[Tensor, Tensor]:
    """The `k` largest values along an axis, best first, and their places."""
    where, rank = "topk", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    values, places = make(where, top.TopK(axis=place, K=k), [tensor_i], out_name, dtype=floats_only(where, tensor_i))
    return values, places


def cumsum(tensor_i: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """Sums of all elements up to each one along an axis."""
    where, rank = "cumsum", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    return make_one(where, top.CumSum(axis=place), [tensor_i], out_name, dtype=floats_only(where, tensor_i))


# Places


def index_select(tensor_i: Tensor, index: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """The elements at these places of an axis."""
    return gather(tensor_i, index, axis, out_name)


def gather_elements(tensor_i: Tensor, index: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """For each index, the element there along the axis, and at the index's own place elsewhere."""
    where, rank = "gather_elements", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = tensor_i.quantisation, top.GatherElements(axis=place)
    return make_one(where, op, [tensor_i, index], out_name, dtype=tensor_i.dtype, quantisation=meaning)


def scatter(tensor_i: Tensor, index: Tensor, updates: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """With each update at its index along the axis, and at its own place elsewhere; the last of several wins."""
    where, rank = "scatter", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = same_meaning(where, [tensor_i, updates]), top.ScatterElements(axis=place)
    return make_one(where, op, [tensor_i, index, updates], out_name, dtype=tensor_i.dtype, quantisation=meaning)


def scatterND(tensor_i: Tensor, indices: Tensor, updates: Tensor, out_name: str | None = None) -> Tensor:  # noqa: N802  # the interface's name
    """With each update at the leading indices in the last dimension of `indices`; the last of several wins."""
    meaning = same_meaning("scatterND", [tensor_i, updates])
    operands = [tensor_i, indices, updates]
    return make_one("scatterND", top.ScatterND(), operands, out_name, dtype=tensor_i.dtype, quantisation=meaning)
