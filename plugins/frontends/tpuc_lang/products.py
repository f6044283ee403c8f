"""Matrix products of floats, of integers into int32, and of quantized integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top

from tpuc_lang.conversions import requant_int
from tpuc_lang.filters import WHOLE, check_sums, product_meaning, real_bias, without_offset
from tpuc_lang.graph import FLOATS, LangError, Scales, Tensor, ZeroPoints, constant, floats_only, make_one
from tpuc_lang.stored import AWAY, parameters, quantized, real, real_filter


def matmul(
    input: Tensor,  # noqa: A002  # the interface's name
    right: Tensor,
    bias: Tensor | None = None,
    right_transpose: bool = False,
    left_transpose: bool = False,
    output_transpose: bool = False,
    keep_dims: bool = True,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Multiply over the last two dimensions, plus the bias; without `keep_dims` the result is one matrix."""
    where = "matmul"
    dtype = floats_only(where, input, right)
    if out_dtype not in (None, dtype) or right.dtype != dtype:
        raise LangError(f"{where}: operands and result have one float type; cast what has another one.")
    result = _product(where, input, right, bias, left_transpose, right_transpose, output_transpose)
    return _as_wanted(where, result, keep_dims, dtype, out_name)


def matrix_mul(
    lhs: Tensor,
    rhs: Tensor,
    bias: Tensor | None = None,
    left_zp: ZeroPoints | None = None,
    right_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Multiply floats or integers over the last two dimensions. First edition."""
    if not lhs.is_integer:
        return matmul(lhs, rhs, bias, out_dtype=out_dtype, out_name=out_name)
    return _of_integers(
        "matrix_mul", lhs, rhs, bias, (False, False, False), True, left_zp, right_zp, out_dtype, out_name
    )


def matmul_int(
    input: Tensor,  # noqa: A002  # the interface's name
    right: Tensor,
    bias: Tensor | None = None,
    right_transpose: bool = False,
    left_transpose: bool = False,
    output_transpose: bool = False,
    keep_dims: bool = True,
    input_zp: ZeroPoints | None = None,
    right_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Multiply integers after subtracting their zero points; returns the sums of products."""
    transposes = (left_transpose, right_transpose, output_transpose)
    return _of_integers(
        "matmul_int", input, right, bias, transposes, keep_dims, input_zp, right_zp, out_dtype, out_name
    )


def matmul_quant(
    input: Tensor,  # noqa: A002  # the interface's name
    right: Tensor,
    bias: Tensor | None = None,
    right_transpose: bool = False,
    keep_dims: bool = True,
    input_scale: Scales | None = None,
    right_scale: Scales | None = None,
    output_scale: Scales | None = None,
    input_zp: ZeroPoints | None = None,
    right_zp: ZeroPoints | None = None,
    output_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Multiply the real values of quantized integers, in the result's scale; the bias is in steps of the sums."""
    where = "matmul_quant"
    if output_scale is None:
        raise LangError(f"{where}: output_scale is not given; state it.")
    if not (input.is_integer and right.is_integer):
        raise LangError(f"{where}: its operands are {input.dtype} and {right.dtype}; both must be integers.")
    right.set_quantization(where, right_scale, right_zp)
    left = real(where, input, input_scale, input_zp)
    columns = len(right.shape) - (2 if right_transpose else 1)
    factors = real_filter(where, right, columns) if right.is_const else real(where, right)
    steps = None if bias is None else real_bias(where, input, right, bias)
    value = _product(where, left, factors, steps, False, right_transpose, False)
    value = _as_wanted(where, value, keep_dims, "float32", None)
    return quantized(where, value, parameters(where, output_scale, output_zp), out_dtype or "int8", out_name)


def matmulrq_int_op(
    input: Tensor,  # noqa: A002  # the interface's name
    right: Tensor,
    bias: Tensor | None = None,
    input_transpose: bool = False,
    right_transpose: bool = False,
    output_transpose: bool = False,
    keep_dims: bool = True,
    out_dtype: str = "int8",
    out_name: str | None = None,
    multiplier: int | Sequence[int] = 1,
    shift: int | Sequence[int] = 0,
    offset: int | Sequence[int] = 0,
    requant_mode: int = 2,
    round_mode: str = AWAY,
    rq_axis: int = -1,
) -> Tensor:
    """`matmul_int`, then `requant_int`; a positive shift shifts right here."""
    where = "matmulrq_int_op"
    if rq_axis not in (-1, len(input.shape) - 1):
        raise LangError(f"{where}: rq_axis is {rq_axis}; only the last axis can have separate numbers.")
    transposes = (input_transpose, right_transpose, output_transpose)
    sums = _of_integers(where, input, right, bias, transposes, keep_dims, 0, 0, "int32", None)
    left = [-one for one in np.atleast_1d(shift).tolist()]
    return requant_int(sums, multiplier, left, offset, requant_mode, out_dtype, out_name, round_mode, rq_axis)


def _product(
    where: str, left: Tensor, right: Tensor, bias: Tensor | None, turn_left: bool, turn_right: bool, turn_result: bool
) -> Tensor:
    op = top.MatMul(left_transpose=turn_left, right_transpose=turn_right, output_transpose=turn_result)
    return make_one(where, op, [left, right, bias])


def _as_wanted(where: str, result: Tensor, keep_dims: bool, dtype: str, out_name: str | None) -> Tensor:
    """Return the product under its name and type, with all dimensions or as one matrix."""
    result.dtype = dtype
    if not keep_dims and len(result.shape) > 2:
        op = top.Reshape(shape=(-1, result.shape[-1]))
        return make_one(where, op, [result], out_name, dtype=dtype, quantization=result.quantization)
    if out_name is not None:
        result.rename(out_name)
    return result


def _of_integers(
    where: str,
    left: Tensor,
    right: Tensor,
    bias: Tensor | None,
    transposes: tuple[bool, bool, bool],
    keep_dims: bool,
    left_zp: ZeroPoints | None,
    right_zp: ZeroPoints | None,
    out_dtype: str | None,
    out_name: str | None,
) -> Tensor:
    if not (left.is_integer and right.is_integer):
        raise LangError(f"{where}: its operands are {left.dtype} and {right.dtype}; both must be integers.")
    if out_dtype is not None and out_dtype not in WHOLE:
        raise LangError(f"{where}: out_dtype is '{out_dtype}'; use one of {', '.join(WHOLE)}.")
    for label, tensor, given in (("left", left, left_zp), ("right", right, right_zp)):
        if given is not None:
            tensor.set_quantization(f"{where} ({label} zero point)", None, given)
    _check_exact(where, left, right, transposes[0])
    meaning = product_meaning(left, right)
    result = _product(where, _plain(where, left), _plain(where, right), bias, *transposes)
    named = _as_wanted(where, result, keep_dims, out_dtype or "int32", out_name)
    named.quantization = meaning
    return named


def _plain(where: str, x: Tensor) -> Tensor:
    """Subtract the zero point."""
    points = x.quantization.zero_point
    if points is not None and len(points) > 1:
        raise LangError(f"{where}: tensor '{x.name}' has {len(points)} zero points; a matrix has one.")
    if x.is_const and x.data is not None and points:
        return constant(x.data.astype(np.int64) - np.array(points))
    return without_offset(where, x)


def _check_exact(where: str, left: Tensor, right: Tensor, turned: bool) -> None:
    if left.dtype in FLOATS or right.dtype in FLOATS:
        return
    points = right.quantization.zero_point
    offset = points[0] if points else 0
    if right.data is not None and right.is_const:
        sizes = np.abs(right.data.astype(np.float64) - offset)
        check_sums(where, left, float(max(sizes.sum(-1).max(), sizes.sum(-2).max())))
        return
    limits = np.iinfo(right.dtype)
    depth = left.shape[-2 if turned else -1]
    check_sums(where, left, float(depth * max(limits.max - offset, offset - limits.min)))
