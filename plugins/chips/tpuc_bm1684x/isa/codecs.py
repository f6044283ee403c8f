"""Encode operands and common attribute groups as command fields."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from tpuc.api.encoding import Coded, Draft, FieldCodec, Fields, Number, Numbers

from tpuc_bm1684x.isa.types import (
    DType,
    Layout,
    Operand,
    Scalar,
    Strides,
    dtype_of,
    layout_of,
    rounding_code,
    rounding_of,
)

Stated: TypeAlias = "str | int | Callable[[Any], int]"
"""Source of an element type code: the field that holds it, a constant, or a function of the attributes."""


def operation(codes: type[enum.IntEnum]) -> Coded:
    """Codec of the sub-opcode."""
    return Coded("operation", "tsk_eu_typ", int, codes)


def rounding(attribute: str, field: str, at: int = 0, width: int = 64) -> Coded:
    """Codec of a rounding mode."""
    return Coded(attribute, field, rounding_code, rounding_of, at, width)


def element_type(attribute: str, field: str) -> Coded:
    """Codec of an element type without its sign: integers decode as signed."""
    return Coded(attribute, field, _prec, dtype_of)


def _prec(dtype: DType) -> int:
    return dtype.prec


def extents(attribute: str, prefix: str, names: str = "nchw") -> Numbers:
    """Codec of the fields `prefix`_n, _c, _h, _w."""
    return Numbers(attribute, tuple(f"{prefix}_{name}" for name in names))


class Tensor(FieldCodec):
    """Codec of operand `prefix`: a tensor; with `immediate` also an immediate, with `optional` also None.

    `prec` and `sign` give the source of its element type codes, by default its own fields. `layout` is the layout that
    the command fixes, None where a field states it. `float_sign` is the sign code of floats. None is encoded as the
    immediate 0.
    """

    def __init__(
        self,
        attribute: str,
        prefix: str,
        *,
        prec: Stated | None = None,
        sign: Stated | None = None,
        layout: Layout | Callable[[Any], Layout] | None = Layout.ALIGNED,
        immediate: bool = False,
        optional: bool = False,
        float_sign: int = 1,
    ) -> None:
        self._attribute, self._layout, self._float_sign = attribute, layout, float_sign
        self._prec: Stated = f"{prefix}_prec" if prec is None else prec
        self._sign: Stated = f"{prefix}_sign" if sign is None else sign
        self._read_prec, self._read_sign = _reader(self._prec), _reader(self._sign)
        self._immediate, self._optional = immediate, optional
        self._address, self._const, self._code = f"{prefix}_addr", f"{prefix}_const", f"{prefix}_str"
        self._strides = tuple(f"{prefix}_{name}_str" for name in "nchw")

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        operand: Operand | Scalar | None = instruction.__dict__[self._attribute]
        if operand is None:
            fields[self._const] = 1
            return
        dtype = operand.dtype
        if isinstance(self._prec, str):
            fields[self._prec] = dtype.prec
        if isinstance(self._sign, str):
            fields[self._sign] = self._float_sign if dtype.is_float else int(dtype.signed)
        if isinstance(operand, Scalar):
            fields[self._const], fields[self._address] = 1, operand.bits
            return
        fields[self._address] = operand.address
        if self._layout is None:
            fields[self._code] = operand.layout_code
            if not isinstance(operand.layout, Layout):
                fields.update(zip(self._strides, operand.layout, strict=True))

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self._attribute] = self._operand(draft, fields)

    def _operand(self, draft: Draft, fields: Fields) -> Operand | Scalar | None:
        address = fields[self._address]
        if (self._immediate or self._optional) and fields[self._const]:
            if self._optional and not (self._immediate and address):
                return None
            return Scalar(address, self._dtype(draft, fields))
        return Operand(address, self._dtype(draft, fields), self._read_layout(draft, fields))

    def _read_layout(self, draft: Draft, fields: Fields) -> Layout | Strides:
        match self._layout:
            case None:
                n, c, h, w = (fields[name] for name in self._strides)
                return layout_of(fields[self._code], (n, c, h, w))
            case Layout():
                return self._layout
            case _:
                return self._layout(draft)

    def _dtype(self, draft: Draft, fields: Fields) -> DType:
        return dtype_of(self._read_prec(draft, fields), self._read_sign(draft, fields))


def states_operands(command: Any) -> bool:
    """True where fields state the type of the second operand, and whether an integer result is signed."""
    return command.target.states_signs


def uses_registers(command: Any) -> bool:
    """True where the zero point of the second operand is in a register."""
    return command.is_integer and command.target.has_registers


class IntegerSign(FieldCodec):
    """Codec of the sign of an integer result, where a field states it."""

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        dtype: DType = instruction.__dict__["result"].dtype
        fields["res0_sign"] = int(dtype.signed and not dtype.is_float)

    def read(self, draft: Draft, fields: Fields) -> None:
        result: Operand = draft.__dict__["result"]
        draft.__dict__["result"] = replace(result, dtype=result.dtype.with_sign(bool(fields["res0_sign"])))


def _reader(stated: Stated) -> Callable[[Draft, Fields], int]:
    match stated:
        case str():
            return lambda _, fields: fields[stated]
        case int():
            return lambda _, __: stated
        case _:
            return lambda draft, _: stated(draft)


def plain_address(attribute: str, prefix: str) -> Number:
    """Codec of an operand that is only an address."""
    return Number(attribute, f"{prefix}_addr")
