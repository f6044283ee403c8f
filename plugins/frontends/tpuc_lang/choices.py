"""Comparison, selection, sorting, and indexing. True is 1 and false is 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_lang.graph import (
    LangError,
    Operand,
    Scalar,
    Tensor,
    constant,
    floats_only,
    make,
    make_one,
    number_of,
    once,
    same_meaning,
)
from tpuc_lang.stored import parameters, quantized, real

BYTES = 256
RELATIONS = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "NotEqual")


def compare(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    mode: str,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
    *,
    where: str = "compare",
) -> Tensor:
    """Return 1 where the relation (`Greater`, `Less`, `Equal`, ...) holds, else 0, in the operands' type.

    `scale` lists the scales of the operands and of the result.
    """
    is_tensor = isinstance(tensor_i1, Tensor)
    left: Tensor = tensor_i0
    if scale is not None:
        count = 3 if is_tensor else 2
        points = (0,) * count if zero_point is None else tuple(zero_point)
        if not len(scale) == len(points) == count:
            raise LangError(f"{where}: scale and zero_point have {count} numbers each, of operands and result.")
        if is_tensor and (scale[0], points[0]) != (scale[1], points[1]):
            raise LangError(f"{where}: both operands need the same scale and zero point; requantize one of them.")
        left = real(where, tensor_i0, scale[0], points[0])
        if is_tensor:
            tensor_i1 = real(where, tensor_i1, scale[1], points[1])
        meaning = parameters(where, scale[-1], points[-1])
        truth = compare(left, tensor_i1, mode, where=where)
        return quantized(where, truth, meaning, tensor_i0.dtype, out_name)
    dtype = tensor_i0.dtype
    if isinstance(tensor_i1, Tensor):
        same_meaning(where, [left, tensor_i1])
        return make_one(where, top.Compare(mode=mode), [left, tensor_i1], out_name, dtype=dtype)
    op = top.CompareConst(mode=mode, const_val=number_of(tensor_i1))
    return make_one(where, op, [left], out_name, dtype=dtype)


def gt(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the first tensor is greater than the second."""
    return compare(tensor_i0, tensor_i1, "Greater", scale, zero_point, out_name, where="gt")


def lt(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the first tensor is less than the second."""
    return compare(tensor_i0, tensor_i1, "Less", scale, zero_point, out_name, where="lt")


def ge(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the first tensor is greater than or equal to the second."""
    return compare(tensor_i0, tensor_i1, "GreaterOrEqual", scale, zero_point, out_name, where="ge")


def le(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the first tensor is less than or equal to the second."""
    return compare(tensor_i0, tensor_i1, "LessOrEqual", scale, zero_point, out_name, where="le")


def eq(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensors are equal."""
    return compare(tensor_i0, tensor_i1, "Equal", scale, zero_point, out_name, where="eq")


def ne(
    tensor_i0: Tensor,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensors differ."""
    return compare(tensor_i0, tensor_i1, "NotEqual", scale, zero_point, out_name, where="ne")


def gts(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor is greater than a number."""
    return compare(tensor_i0, scalar_i1, "Greater", scale, zero_point, out_name, where="gts")


def lts(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor is less than a number."""
    return compare(tensor_i0, scalar_i1, "Less", scale, zero_point, out_name, where="lts")


def ges(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor is greater than or equal to a number."""
    return compare(tensor_i0, scalar_i1, "GreaterOrEqual", scale, zero_point, out_name, where="ges")


def les(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor is less than or equal to a number."""
    return compare(tensor_i0, scalar_i1, "LessOrEqual", scale, zero_point, out_name, where="les")


def eqs(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor is equal to a number."""
    return compare(tensor_i0, scalar_i1, "Equal", scale, zero_point, out_name, where="eqs")


def nes(
    tensor_i0: Tensor,
    scalar_i1: Scalar | float,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return 1 where the tensor differs from a number."""
    return compare(tensor_i0, scalar_i1, "NotEqual", scale, zero_point, out_name, where="nes")


# Choices


def cond_select(cond: Tensor, tbrn: Operand, fbrn: Operand, out_name: str | None = None) -> Tensor:
    """Return `tbrn` where the condition is true, else `fbrn`; both are tensors or numbers, and all operands
    broadcast.
    """
    return _selected("cond_select", cond, tbrn, fbrn, out_name)


def select(
    lhs: Tensor,
    rhs: Tensor,
    tbrn: Operand,
    fbrn: Operand,
    type: str,  # the interface's name
    out_name: str | None = None,
) -> Tensor:
    """Return `tbrn` where a relation of two tensors holds, else `fbrn`."""
    if type not in RELATIONS:
        raise LangError(f"select: type '{type}' is not known; use one of {', '.join(RELATIONS)}.")
    return _selected("select", compare(lhs, rhs, type, where="select"), tbrn, fbrn, out_name)


def _selected(where: str, cond: Tensor, tbrn: Operand, fbrn: Operand, out_name: str | None) -> Tensor:
    given = [one for one in (tbrn, fbrn) if isinstance(one, Tensor)]
    branches = [one if isinstance(one, Tensor) else constant(np.full(1, number_of(one))) for one in (tbrn, fbrn)]
    if not given:
        return make_one(where, top.Where(), [cond, *branches], out_name)
    meaning = same_meaning(where, given)
    operands = [cond, *branches]
    return make_one(where, top.Where(), operands, out_name, dtype=given[0].dtype, quantization=meaning)


def lut(input: Tensor, table: Tensor, out_name: str | None = None) -> Tensor:  # noqa: A002  # the interface's name
    """Look every byte up in a table of 256 entries; the last 128 are those of negative numbers."""
    where = "lut"
    if input.dtype not in ("int8", "uint8") or int(np.prod(table.shape)) != BYTES:
        raise LangError(f"{where}: {input.dtype} and a table of {list(table.shape)}; it takes bytes and 256 entries.")
    places, entries = input, table
    if table.shape != (BYTES,):
        entries = make_one(where, top.Reshape(shape=(BYTES,)), [table])
    if input.dtype == "int8":  # so that no place is below 0
        places = make_one(where, top.Cast(to="UINT8"), [input])
    meaning = table.quantization
    op = top.Gather(axis=0)
    return make_one(where, op, [entries, places], out_name, dtype=table.dtype, quantization=meaning)


# Order


def arg(
    input: Tensor,  # noqa: A002  # the interface's name
    method: str = "max",
    axis: int = 0,
    keep_dims: bool = True,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return index and value of the first largest or smallest element (method max or min) along an axis."""
    where, rank = "arg", len(input.shape)
    if method not in ("max", "min"):
        raise LangError(f"{where}: method '{method}' is not known; use max or min.")
    place = once(where, lambda: positive_axis(axis, rank))
    op = top.Arg(axis=place, keepdims=keep_dims, mode="ArgMax" if method == "max" else "ArgMin")
    index, value = make(where, op, [input], _first(out_name, "ind"), dtype=floats_only(where, input))
    index.dtype = "int32"
    return index, _second(value, out_name, "val")


def topk(
    input: Tensor,  # noqa: A002  # the interface's name
    axis: int,
    k: int,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the `k` largest values along an axis, best first, and their indices."""
    return _ordered("topk", input, axis, k, True, out_name)


def sort(
    input: Tensor,  # noqa: A002  # the interface's name
    axis: int = -1,
    descending: bool = True,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Sort along an axis (stable); return the values and their indices."""
    return _ordered("sort", input, axis, None, descending, out_name)


def argsort(
    input: Tensor,  # noqa: A002  # the interface's name
    axis: int = -1,
    descending: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Return the indices that sort along an axis."""
    _, places = _ordered("argsort", input, axis, None, descending, None)
    if out_name is not None:
        places.rename(out_name)
    return places


def sort_by_key(
    input: Tensor,  # noqa: A002  # the interface's name
    key: Tensor,
    axis: int = -1,
    descending: bool = True,
    out_name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Sort slices along an axis by the keys, one per index; return the slices and the sorted keys."""
    where, rank = "sort_by_key", len(input.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    if key.shape != (input.shape[place],):
        raise LangError(f"{where}: the key is {list(key.shape)}; give one number for each of {input.shape[place]}.")
    keys, places = _ordered(where, key, 0, None, descending, None)
    meaning, op = input.quantization, top.Gather(axis=place)
    name = _first(out_name, "sorted_out")
    result = make_one(where, op, [input, places], name, dtype=input.dtype, quantization=meaning)
    return result, _second(keys, out_name, "sorted_key")


def _ordered(
    where: str, x: Tensor, axis: int, count: int | None, largest: bool, out_name: str | None
) -> tuple[Tensor, Tensor]:
    rank = len(x.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    op = top.TopK(axis=place, K=x.shape[place] if count is None else count, largest=largest)
    values, places = make(where, op, [x], _first(out_name, "val"), dtype=floats_only(where, x))
    places.dtype = "int32"
    return values, _second(places, out_name, "ind")


def _first(out_name: str | None, ending: str) -> str | None:
    return f"{out_name}_{ending}" if out_name else None


def _second(tensor: Tensor, out_name: str | None, ending: str) -> Tensor:
    if out_name:
        tensor.rename(f"{out_name}_{ending}")
    return tensor


# Places


def index_select(
    input: Tensor,  # noqa: A002  # the interface's name
    index: Tensor,
    axis: int = -1,
    out_name: str | None = None,
    keep_dims: bool = True,
) -> Tensor:
    """Select elements by index along an axis; the axis is removed for a single index without `keep_dims`."""
    where, rank = "index_select", len(input.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = input.quantization, top.Gather(axis=place, keepdims=keep_dims)
    return make_one(where, op, [input, index], out_name, dtype=input.dtype, quantization=meaning)


def scatter(
    input: Tensor,  # noqa: A002  # the interface's name
    index: Tensor,
    updates: Tensor,
    axis: int = 0,
    out_name: str | None = None,
) -> Tensor:
    """Write each update at its index along the axis, and at its own position elsewhere; the last of several
    updates wins.
    """
    where, rank = "scatter", len(input.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = same_meaning(where, [input, updates]), top.ScatterElements(axis=place)
    return make_one(where, op, [input, index, updates], out_name, dtype=input.dtype, quantization=meaning)


def scatterND(  # noqa: N802  # the interface's name
    input: Tensor,  # noqa: A002  # the interface's name
    indices: Tensor,
    updates: Tensor,
    out_name: str | None = None,
) -> Tensor:
    """Write each update at the leading indices given by the last dimension of `indices`; the last of several
    updates wins.
    """
    meaning = same_meaning("scatterND", [input, updates])
    operands = [input, indices, updates]
    return make_one("scatterND", top.ScatterND(), operands, out_name, dtype=input.dtype, quantization=meaning)


# Beyond the language


def and_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Return 1 where both are true."""
    return make_one("and_op", top.Compare(mode="And"), [tensor_i0, tensor_i1], out_name)


def or_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Return 1 where at least one is true."""
    return make_one("or_op", top.Compare(mode="Or"), [tensor_i0, tensor_i1], out_name)


def xor_op(tensor_i0: Tensor, tensor_i1: Tensor, out_name: str | None = None) -> Tensor:
    """Return 1 where exactly one is true."""
    return make_one("xor_op", top.Compare(mode="Xor"), [tensor_i0, tensor_i1], out_name)


def not_op(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """Return 1 where the operand is false."""
    return make_one("not_op", top.CompareConst(mode="Equal", const_val=0.0), [tensor_i], out_name)


def cumsum(tensor_i: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """Return cumulative sums along an axis."""
    where, rank = "cumsum", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    return make_one(where, top.CumSum(axis=place), [tensor_i], out_name, dtype=floats_only(where, tensor_i))


def gather(tensor_i: Tensor, indices: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """Select elements by index along an axis."""
    where, rank = "gather", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = tensor_i.quantization, top.Gather(axis=place)
    return make_one(where, op, [tensor_i, indices], out_name, dtype=tensor_i.dtype, quantization=meaning)


def gather_elements(tensor_i: Tensor, index: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """For each index, select the element at that index along the axis, and at the index's own position elsewhere."""
    where, rank = "gather_elements", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning, op = tensor_i.quantization, top.GatherElements(axis=place)
    return make_one(where, op, [tensor_i, index], out_name, dtype=tensor_i.dtype, quantization=meaning)
