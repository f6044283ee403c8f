"""Helpers with which chips describe the encoding of their instructions."""

from __future__ import annotations

from tpuc.machine.encoded import BitLayout, EncodedInstruction, RawFields, show_value
from tpuc.machine.encoding import (
    Cases,
    Coded,
    Condition,
    Constant,
    Defaulted,
    Derived,
    Draft,
    Encoding,
    FieldCodec,
    Fields,
    Ignored,
    Nested,
    Number,
    Numbers,
    Present,
    Signed,
    When,
    Words,
    flag,
    signed,
)

__all__ = [
    "BitLayout",
    "Cases",
    "Coded",
    "Condition",
    "Constant",
    "Defaulted",
    "Derived",
    "Draft",
    "EncodedInstruction",
    "Encoding",
    "FieldCodec",
    "Fields",
    "Ignored",
    "Nested",
    "Number",
    "Numbers",
    "Present",
    "RawFields",
    "Signed",
    "When",
    "Words",
    "flag",
    "show_value",
    "signed",
]
