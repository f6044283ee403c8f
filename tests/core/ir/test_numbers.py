"""Floats in text. Expected texts are what LLVM 17 printed for the same bits."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.ir.text.numbers import format_float, parse_hexadecimal

from tests.families import each


@each(
    ("value", "width", "text"),
    [
        (0.0, "f64", "0.000000e+00"),
        (-0.0, "f64", "-0.000000e+00"),
        (-1.0, "f64", "-1.000000e+00"),
        (255.0, "f64", "2.550000e+02"),
        (0.3, "f64", "3.000000e-01"),
        (0.7, "f64", "0.69999999999999996"),
        (1.234567, "f64", "1.234567"),
        (123456.7, "f64", "123456.7"),
        (1.2345678e-5, "f64", "1.2345677999999999E-5"),
        (0.0912345678912345, "f64", "0.091234567891234505"),
        (0.027588068235294118, "f64", "0.027588068235294118"),
        (1234567890.0, "f64", "0x41D26580B4800000"),
        (1.7976931348623157e308, "f64", "1.7976931348623157E+308"),
        (5e-324, "f64", "4.940660e-324"),
        (math.inf, "f64", "0x7FF0000000000000"),
        (1e-5, "f32", "9.99999974E-6"),
        (0.7, "f32", "0.699999988"),
        (0.1234567, "f32", "0.123456702"),
        (math.nan, "f32", "0x7FC00000"),
        (-math.inf, "f32", "0xFF800000"),
        (0.1, "f16", "9.997550e-02"),
        (0.33, "bf16", "3.300780e-01"),
    ],
)
def test_floats_print_as_llvm_prints_them(value: float, width: str, text: str) -> None:
    assert format_float(value, width) == text


@given(st.floats(allow_nan=False))
def test_every_double_survives_its_text(value: float) -> None:
    text = format_float(value)
    back = parse_hexadecimal(text, "f64") if text.startswith("0x") else float(text)
    assert struct.pack("<d", back) == struct.pack("<d", value)


@given(st.floats(width=32, allow_nan=False))
def test_every_single_survives_its_text(value: float) -> None:
    text = format_float(value, "f32")
    back = parse_hexadecimal(text, "f32") if text.startswith("0x") else float(text)
    assert struct.pack("<f", back) == struct.pack("<f", value)


@each(
    ("text", "width", "value"),
    [("0x7E", "f8E4M3FN", 448.0), ("0x3C", "f8E5M2", 1.0), ("0x01", "f8E4M3FN", 2.0**-9), ("0x3F80", "bf16", 1.0)],
)
def test_bits_of_narrow_floats(text: str, width: str, value: float) -> None:
    assert parse_hexadecimal(text, width) == value


def test_bits_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(ValueError, match="a f32 in hexadecimal has 8 digits"):
        parse_hexadecimal("0x7FC0", "f32")
