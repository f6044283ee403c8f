"""Products of integers beyond 24 bits, shifted right and rounded exactly, computed in digits that floats represent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top

from tpuc_lang.graph import LangError, Tensor, limits_of, make_one
from tpuc_lang.stored import EXACT_BITS, rounded, scaled

DIGIT_BITS = 11
"""Bits of a digit: three products of digits plus a carry stay below 2**24."""
BASE = 1 << DIGIT_BITS


def product_shifted(
    where: str, x: Tensor, factors: Sequence[int], shifts: Sequence[int], axis: int, mode: str
) -> Tensor:
    """Return ``x * factor / 2**shift`` rounded; one factor and shift, or one for each index of `axis`. x has at most 24
    bits.

    The result is exact below 2**22; larger results never fall below that.
    """
    if min(shifts) < 0:
        raise LangError(f"{where}: the shift is {min(shifts)}; right shifts must be at least 0 here.")
    shift = max(shifts)
    whole = [factor << (shift - one) for factor, one in zip(factors, shifts, strict=True)]
    largest = max(map(abs, limits_of(x.dtype))) if x.is_integer else 1 << EXACT_BITS
    if min(largest, 1 << EXACT_BITS) * max(map(abs, whole)) <= 1 << EXACT_BITS:
        product = scaled(where, x, whole, axis)
        return rounded(where, scaled(where, product, [2.0**-shift], 0), mode)
    size = make_one(where, top.Abs(), [x])
    digits = _product(where, _digits(where, size, largest), [abs(one) for one in whole], axis)
    total = _quarters(where, digits, shift)
    signed = make_one(where, top.Mul(), [total, make_one(where, top.Sign(), [x])])
    if any(one < 0 for one in whole):
        signed = scaled(where, signed, [-1.0 if one < 0 else 1.0 for one in whole], axis)
    return rounded(where, signed, mode)


def _digits(where: str, x: Tensor, largest: int) -> list[Tensor]:
    """Split nonnegative integers into digits, lowest first."""
    digits: list[Tensor] = []
    bits = min(largest, 1 << EXACT_BITS).bit_length()
    for _ in range(-(-bits // DIGIT_BITS) - 1):
        low, x = _parted(where, x, BASE)
        digits.append(low)
    return [*digits, x]


def _parted(where: str, x: Tensor, base: int) -> tuple[Tensor, Tensor]:
    """Divide integers by a power of two; return remainder and quotient."""
    high = make_one(where, top.Floor(), [scaled(where, x, [1 / base], 0)])
    return make_one(where, top.Sub(), [x, scaled(where, high, [base], 0)]), high


def _product(where: str, left: Sequence[Tensor], factors: Sequence[int], axis: int) -> list[Tensor]:
    """Multiply digits by nonnegative integers; return the digits of the product."""
    count = -(-max(factors).bit_length() // DIGIT_BITS)
    right = [[(one >> DIGIT_BITS * place) % BASE for one in factors] for place in range(count)]
    digits: list[Tensor] = []
    carry: Tensor | None = None
    for column in range(len(left) + count - 1):
        terms = [
            scaled(where, left[place], right[column - place], axis)
            for place in range(len(left))
            if 0 <= column - place < count and any(right[column - place])
        ]
        total = _sum(where, [*terms, *([] if carry is None else [carry])])
        if total is None:
            total = scaled(where, left[0], [0.0], 0)
        low, carry = _parted(where, total, BASE)
        digits.append(low)
    return digits if carry is None else [*digits, carry]


def _sum(where: str, terms: Sequence[Tensor]) -> Tensor | None:
    total: Tensor | None = None
    for term in terms:
        total = term if total is None else make_one(where, top.Add(), [total, term])
    return total


def _quarters(where: str, digits: Sequence[Tensor], shift: int) -> Tensor:
    """Divide by 2**shift. Of the fraction, only one half and, for anything lower, one quarter are kept."""
    if shift == 0:
        return _weighted(where, digits, 0)
    place, bits = divmod(shift - 1, DIGIT_BITS)  # of the digit with the highest bit below the point
    if place >= len(digits):
        return _any(where, digits)
    rest, upper = _parted(where, digits[place], 1 << bits) if bits else (None, digits[place])
    total = _weighted(where, [upper, *digits[place + 1 :]], -1, first_bits=DIGIT_BITS - bits)
    lower = [*digits[:place], *([] if rest is None else [rest])]
    if not lower:
        return total
    return make_one(where, top.Add(), [total, _any(where, lower)])


def _weighted(where: str, digits: Sequence[Tensor], power: int, first_bits: int = DIGIT_BITS) -> Tensor:
    """Sum the digits by weight; the first one has weight 2**power and `first_bits` bits."""
    terms = [scaled(where, digits[0], [2.0**power], 0)]
    for index, digit in enumerate(digits[1:]):
        terms.append(scaled(where, digit, [2.0 ** (power + first_bits + DIGIT_BITS * index)], 0))
    total = _sum(where, terms)
    assert total is not None
    return total


def _any(where: str, digits: Sequence[Tensor]) -> Tensor:
    """Return one quarter where any digit is not 0."""
    total = _sum(where, digits)
    assert total is not None
    found = make_one(where, top.CompareConst(mode="Greater", const_val=0.0), [total])
    return scaled(where, found, [0.25], 0)


def reach(x: Tensor) -> int:
    """Return the largest magnitude of a tensor: of a constant's numbers, else of its type, at most 24 bits."""
    if x.data is not None and x.is_const:
        return int(np.abs(x.data.astype(np.float64)).max())
    return min(max(map(abs, limits_of(x.dtype))), 1 << EXACT_BITS)
