"""Floats as text, digit for digit as LLVM prints them, so that files are byte-identical."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable

# Of the IEEE 754 formats, of bfloat16 (the upper half of a binary32), and of the OCP 8-bit formats.
_HEX_DIGITS = {"f64": 16, "f32": 8, "f16": 4, "bf16": 4, "f8E4M3FN": 2, "f8E5M2": 2}
# With the leading bit that is not stored.
_SIGNIFICAND_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8E4M3FN": 4, "f8E5M2": 3}
# The quiet NaN without payload.
_NAN_BITS = {"f64": 0x7FF8 << 48, "f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "f8E4M3FN": 0x7F, "f8E5M2": 0x7E}
_SHORT_DIGITS = 6
"""Digits after the point that LLVM tries before it writes as many as the value needs."""


def format_float(value: float, width: str = "f64") -> str:
    """The text of a float of type `width`: six digits if they are exact, else as many as it needs."""
    if value == 0:
        return "-0.000000e+00" if math.copysign(1.0, value) < 0 else "0.000000e+00"
    return _format_nonzero(value, width)


@functools.lru_cache(maxsize=1 << 16)
def _format_nonzero(value: float, width: str) -> str:
    if not math.isfinite(value):
        return _hexadecimal(value, width)
    narrow = _NARROW.get(width, float)
    value = narrow(value)
    # A number that six correctly rounded digits do not tell is not told by LLVM's six either.
    if narrow(float(f"{value:.5e}")) == value:
        text = _decimal(value, _SHORT_DIGITS, long_form=False)
        if narrow(float(text)) == value:
            return text
    text = _default_form(value, width)
    return text if "." in text else _hexadecimal(value, width)


def parse_hexadecimal(text: str, width: str) -> float:
    """The float whose bits are `0x...`; raises ValueError when there are too many digits."""
    bits = int(text, 16)
    if len(text) - 2 != _HEX_DIGITS.get(width, 16):
        raise ValueError(f"a {width} in hexadecimal has {_HEX_DIGITS.get(width, 16)} digits")
    if bits == _NAN_BITS.get(width):
        return math.nan  # one object, so that attributes with it compare equal
    match width:
        case "f64":
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        case "f32":
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        case "f16":
            return struct.unpack("<e", struct.pack("<H", bits))[0]
        case "bf16":
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        case _:
            return _small_float(bits, width)


def _default_form(value: float, width: str) -> str:
    """The digits that the width needs; the fast path is exact where LLVM's integer arithmetic rounds once."""
    if width == "f64":
        digits = f"{value:.17e}"
        last = digits[digits.index("e") - 1]
        first = digits[1] if value < 0 else digits[0]
        if first < "7" and last != "5" and 1e-3 < abs(value) < 10:
            return f"{value:.17g}"
    return _decimal(value, 2 + _SIGNIFICAND_BITS[width] * 59 // 196, long_form=True)


def _decimal(value: float, precision: int, long_form: bool) -> str:
    """`APFloat::toString`: truncate the exact value to a few bits more than needed, then round half up in decimal."""
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    if exponent < 0:
        significand = numerator * 5**-exponent
    else:
        significand, exponent = numerator, 0
    # 59 / 196 is log10(2), a little below
    bits_required = (precision * 196 + 58) // 59
    removable = (significand.bit_length() - bits_required) * 59 // 196
    if significand.bit_length() > bits_required and removable > 0:
        exponent += removable
        significand //= 10**removable
    digits = str(significand)
    if len(digits) > precision:
        dropped = len(digits) - precision
        rounded = int(digits[:precision]) + (digits[precision] >= "5")
        exponent += dropped
        digits = str(rounded)
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    text = _long_form(kept, exponent, precision) if long_form else _short_form(kept, exponent, precision)
    return "-" + text if value < 0 else text


def _short_form(digits: str, exponent: int, precision: int) -> str:
    exponent += len(digits) - 1
    zeros = "0" * (precision - len(digits) + 1)
    return f"{digits[0]}.{digits[1:]}{zeros}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _long_form(digits: str, exponent: int, precision: int) -> str:
    """Plain notation for magnitudes near one, else `1.5E-10`; an integer without a point is left to the caller, which
    writes the bits.
    """
    most_significant = exponent + len(digits) - 1
    scientific = (exponent > 3 or len(digits) + exponent > precision) if exponent >= 0 else most_significant < -3
    if scientific:
        sign = "-" if most_significant < 0 else "+"
        return f"{digits[0]}.{digits[1:] or '0'}E{sign}{abs(most_significant)}"
    if exponent >= 0:
        return digits + "0" * exponent
    point = len(digits) + exponent
    return f"{digits[:point]}.{digits[point:]}" if point > 0 else f"0.{'0' * -point}{digits}"


def _hexadecimal(value: float, width: str) -> str:
    if math.isnan(value):
        bits = _NAN_BITS[width]
    else:
        match width:
            case "f64":
                bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            case "f32":
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
            case "f16":
                bits = struct.unpack("<H", struct.pack("<e", value))[0]
            case "bf16":
                bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16
            case "f8E5M2":
                bits = 0x7C if value > 0 else 0xFC
            case _:
                bits = _NAN_BITS[width]
    return f"0x{bits:0{_HEX_DIGITS[width]}X}"


def _small_float(bits: int, width: str) -> float:
    fraction_bits, bias = (3, 7) if width == "f8E4M3FN" else (2, 15)
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, fraction = (bits & 0x7F) >> fraction_bits, bits & ((1 << fraction_bits) - 1)
    if width == "f8E5M2" and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - fraction_bits)
    return sign * math.ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)


def _to_f32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_f16(value: float) -> float:
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_bf16(value: float) -> float:
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


_NARROW: dict[str, Callable[[float], float]] = {"f32": _to_f32, "f16": _to_f16, "bf16": _to_bf16}
