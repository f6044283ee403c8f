"""Element-wise arithmetic of two tensors, or of a tensor and a number; clamping and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tpuc.api import Op
from tpuc_ops import top

from tpuc_lang.graph import (
    FLOATS,
    INTEGERS,
    LangError,
    Operand,
    Tensor,
    constant,
    floats_only,
    limits_of,
    make_one,
    number_of,
    same_meaning,
)
from tpuc_lang.stored import AWAY, EXACT_BITS, parameters, quantized, real, rounded, saturated, scaled, wrapped
from tpuc_lang.wide import reach


def add(
    tensor_i0: Operand,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return the sum. Integers with `scale` (of both operands and the result) represent real values."""
    return _binary("add", tensor_i0, tensor_i1, scale, zero_point, out_dtype, out_name)


def sub(
    tensor_i0: Operand,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return the difference; for integers it is signed."""
    return _binary("sub", tensor_i0, tensor_i1, scale, zero_point, out_dtype, out_name)


def mul(
    tensor_i0: Operand,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return the product."""
    return _binary("mul", tensor_i0, tensor_i1, scale, zero_point, out_dtype, out_name)


def max(  # noqa: A001  # the interface's name
    tensor_i0: Operand,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return the element-wise maximum."""
    return _binary("max", tensor_i0, tensor_i1, scale, zero_point, out_dtype, out_name)


def min(  # noqa: A001  # the interface's name
    tensor_i0: Operand,
    tensor_i1: Operand,
    scale: Sequence[float] | None = None,
    zero_point: Sequence[int] | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return the element-wise minimum."""
    return _binary("min", tensor_i0, tensor_i1, scale, zero_point, out_dtype, out_name)


def div(tensor_i0: Operand, tensor_i1: Operand, out_name: str | None = None) -> Tensor:
    """Return the quotient of floats."""
    where = "div"
    if not isinstance(tensor_i1, Tensor):
        if number_of(tensor_i1) == 0:
            raise LangError(f"{where}: the divisor is 0.")
        tensor = _only_tensor(where, tensor_i0)
        op = top.MulConst(const_val=1.0 / number_of(tensor_i1))
        return make_one(where, op, [tensor], out_name, dtype=floats_only(where, tensor))
    if not isinstance(tensor_i0, Tensor):
        op = top.Reciprocal(const_val=number_of(tensor_i0))
        return make_one(where, op, [tensor_i1], out_name, dtype=floats_only(where, tensor_i1))
    dtype = _same_float(where, [tensor_i0, tensor_i1])
    return make_one(where, top.Div(), [tensor_i0, tensor_i1], out_name, dtype=dtype)


def add_shift(
    tensor_i0: Operand,
    tensor_i1: Operand,
    shift: int,
    out_dtype: str | None,
    round_mode: str = AWAY,
    is_saturate: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Return ``(a + b) * 2**shift`` of integers, rounded for a right shift, and saturated or wrapped."""
    return _binary_shift("add_shift", tensor_i0, tensor_i1, shift, out_dtype, round_mode, is_saturate, out_name)


def sub_shift(
    tensor_i0: Operand,
    tensor_i1: Operand,
    shift: int,
    out_dtype: str | None,
    round_mode: str = AWAY,
    is_saturate: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Return ``(a - b) * 2**shift``; see `add_shift`."""
    return _binary_shift("sub_shift", tensor_i0, tensor_i1, shift, out_dtype, round_mode, is_saturate, out_name)


def mul_shift(
    tensor_i0: Operand,
    tensor_i1: Operand,
    shift: int,
    out_dtype: str | None,
    round_mode: str = AWAY,
    is_saturate: bool = True,
    out_name: str | None = None,
) -> Tensor:
    """Return ``a * b * 2**shift``; see `add_shift`."""
    return _binary_shift("mul_shift", tensor_i0, tensor_i1, shift, out_dtype, round_mode, is_saturate, out_name)


def clamp(tensor_i: Tensor, min: float, max: float, out_name: str | None = None) -> Tensor:  # noqa: A002
    """Clamp to two bounds."""
    low, high = number_of(min), number_of(max)
    if low > high:
        raise LangError(f"clamp: its bounds are {low:g} and {high:g}; give the smaller one first.")
    return make_one("clamp", top.Clip(min=low, max=high), [tensor_i], out_name, dtype=floats_only("clamp", tensor_i))


clip = clamp


def copy(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """Return a copy under another name."""
    op = top.MulConst(const_val=1.0)
    return make_one("copy", op, [tensor_i], out_name, dtype=tensor_i.dtype, quantization=tensor_i.quantization)


# Two operands

OPS: dict[str, Callable[[], Op]] = {
    "add": top.Add,
    "sub": top.Sub,
    "mul": top.Mul,
    "max": top.Max,
    "min": top.Min,
}


def _binary(
    where: str,
    left: Operand,
    right: Operand,
    scale: Sequence[float] | None,
    zero_point: Sequence[int] | None,
    out_dtype: str | None,
    out_name: str | None,
) -> Tensor:
    tensors = [one for one in (left, right) if isinstance(one, Tensor)]
    if not tensors:
        raise LangError(f"{where}: both operands are numbers; give a tensor.")
    if not any(one.is_integer for one in tensors):
        dtype = _float_result(where, tensors, out_dtype)
        if scale is not None:
            raise LangError(f"{where}: tensor '{tensors[0].name}' is {dtype}; scales are for integers.")
        op, operands = _operation(where, left, right)
        return make_one(where, op, operands, out_name, dtype=dtype)
    dtype = _integer_result(where, tensors, out_dtype)
    if scale is not None:
        return _of_real_values(where, left, right, scale, zero_point, dtype, out_name)
    op, operands = _operation(where, left, right)
    if where in ("max", "min"):
        meaning = same_meaning(where, tensors)
        if dtype == tensors[0].dtype:
            return make_one(where, op, operands, out_name, dtype=dtype, quantization=meaning)
    _check_whole(where, left, right)
    _check_exact(where, left, right, dtype)
    return saturated(where, make_one(where, op, operands), dtype, out_name)


def _operation(where: str, left: Operand, right: Operand) -> tuple[Op, list[Tensor]]:
    """Return the op and its operands; a number becomes an attribute."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return OPS[where](), [left, right]
    is_reverse = not isinstance(left, Tensor)
    tensor = right if isinstance(right, Tensor) else left
    number = number_of(left) if not isinstance(left, Tensor) else number_of(_only_number(right))
    assert isinstance(tensor, Tensor)
    match where:
        case "add":
            op: Op = top.AddConst(const_val=number)
        case "sub":
            op = top.SubConst(const_val=number, is_reverse=is_reverse)
        case "mul":
            op = top.MulConst(const_val=number)
        case "max":
            op = top.MaxConst(const_val=number)
        case _:
            op = top.MinConst(const_val=number)
    return op, [tensor]


def _of_real_values(
    where: str,
    left: Operand,
    right: Operand,
    scale: Sequence[float],
    zero_point: Sequence[int] | None,
    dtype: str,
    out_name: str | None,
) -> Tensor:
    points = (0, 0, 0) if zero_point is None else tuple(zero_point)
    if len(scale) != 3 or len(points) != 3:
        raise LangError(f"{where}: scale and zero_point have three numbers each, of both operands and the result.")
    operands = [
        real(where, one, scale[index], points[index])
        if isinstance(one, Tensor)
        else constant(np.full(1, (number_of(one) - points[index]) * scale[index]))
        for index, one in enumerate((left, right))
    ]
    value = make_one(where, OPS[where](), operands)
    return quantized(where, value, parameters(where, scale[2], points[2]), dtype, out_name)


def _binary_shift(
    where: str,
    left: Operand,
    right: Operand,
    shift: int,
    out_dtype: str | None,
    round_mode: str,
    is_saturate: bool,
    out_name: str | None,
) -> Tensor:
    tensors = [one for one in (left, right) if isinstance(one, Tensor)]
    if not tensors or not all(one.is_integer for one in tensors):
        raise LangError(f"{where}: its operands must be integers, at least one of them a tensor.")
    dtype = _integer_result(where, tensors, out_dtype) if out_dtype is None else out_dtype
    if dtype not in INTEGERS:
        raise LangError(f"{where}: out_dtype is '{dtype}'; use one of {', '.join(INTEGERS)}.")
    _check_whole(where, left, right)
    _check_exact(where, left, right, "int32")
    op, operands = _operation(where.removesuffix("_shift"), left, right)
    value = make_one(where, op, operands)
    if shift:
        value = scaled(where, value, [2.0**shift], 0)
    if shift < 0:
        value = rounded(where, value, round_mode)
    return (saturated if is_saturate else wrapped)(where, value, dtype, out_name)


# Types


def _float_result(where: str, tensors: Sequence[Tensor], out_dtype: str | None) -> str:
    dtype = _same_float(where, tensors)
    if out_dtype not in (None, dtype):
        raise LangError(f"{where}: out_dtype is {out_dtype} for {dtype} operands; leave it out.")
    return dtype


def _same_float(where: str, tensors: Sequence[Tensor]) -> str:
    dtype = floats_only(where, *tensors)
    dtypes = {one.dtype for one in tensors}
    if len(dtypes) > 1:
        raise LangError(f"{where}: its operands are {' and '.join(sorted(dtypes))}; cast one of them.")
    return dtype


def _integer_result(where: str, tensors: Sequence[Tensor], out_dtype: str | None) -> str:
    """Return the requested type, else the first signed type of the operands (or the first type); a difference is
    signed. Raises LangError for floats and for unsigned types of differences.
    """
    mixed = next((one for one in tensors if one.dtype in FLOATS), None)
    if mixed is not None:
        raise LangError(f"{where}: tensor '{mixed.name}' is {mixed.dtype}, the other one an integer; cast one of them.")
    signed = next((one.dtype for one in tensors if not one.dtype.startswith("u")), tensors[0].dtype)
    dtype = signed if out_dtype is None else out_dtype
    if dtype not in INTEGERS:
        raise LangError(f"{where}: out_dtype is {dtype} for integers; use one of {', '.join(INTEGERS)}.")
    is_difference = where.startswith("sub") and dtype.startswith("u")
    if is_difference and out_dtype is not None:
        raise LangError(f"{where}: out_dtype is {dtype}, and differences are signed; use {dtype[1:]}.")
    return dtype[1:] if is_difference else dtype


def _check_whole(where: str, *operands: Operand) -> None:
    for one in operands:
        if not isinstance(one, Tensor) and number_of(one) != round(number_of(one)):
            raise LangError(f"{where}: the number {number_of(one):g} is not an integer, but the tensor holds integers.")


def _check_exact(where: str, left: Operand, right: Operand, dtype: str) -> None:
    """Raise LangError if floats could round a result that is not saturated anyway."""
    first, second = (reach(one) if isinstance(one, Tensor) else int(np.abs(number_of(one))) for one in (left, right))
    if where.startswith("mul"):
        largest = first * second
    else:
        largest = np.maximum(first, second) if first >= 1 << EXACT_BITS else first + second
    if largest > 1 << EXACT_BITS and np.abs(limits_of(dtype)).max() > 1 << EXACT_BITS:
        raise LangError(
            f"{where}: its results may reach {largest}, beyond the {EXACT_BITS} bits that are exact here; use a "
            "narrower result, or quantized operands."
        )


def _only_tensor(where: str, operand: Operand) -> Tensor:
    if not isinstance(operand, Tensor):
        raise LangError(f"{where}: both operands are numbers; give a tensor.")
    return operand


def _only_number(operand: Operand) -> float:
    assert not isinstance(operand, Tensor)
    return number_of(operand)
