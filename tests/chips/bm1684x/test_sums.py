"""The order and the roundings of float sums, against exact fractions, and values seen on the vendor's model."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tpuc.machine.windows import exact_product
from tpuc_bm1684x.isa import elementwise, sums

from tests.families import each

Array = npt.NDArray[Any]
F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def exponent(value: Fraction) -> int:
    """The place of the leading one."""
    found = value.numerator.bit_length() - value.denominator.bit_length()
    return found if Fraction(2) ** found <= value else found - 1


def rounded(value: Fraction) -> Fraction:
    """The nearest f32, ties to even; a fraction that is one stays what it is."""
    if not value:
        return value
    unit = Fraction(2) ** (exponent(abs(value)) - 23)
    return round(value / unit) * unit


def aligned(left: Sequence[float], right: Sequence[float], start: float) -> Fraction:
    """Blocks of 32 products, each cut off 24 places below the leading one of the largest."""
    total = Fraction(start)
    for first in range(0, len(left), 32):
        products = [Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)][first : first + 32]
        peak = max(abs(product) for product in products)
        if peak:
            unit = Fraction(2) ** (exponent(peak) - 24)
            total = rounded(total + rounded(sum(int(product / unit) for product in products) * unit))
    return total


def drawn(rng: np.random.Generator, kind: np.dtype[Any], *shape: int, zeros: float = 0.0, spread: float = 1.0) -> Array:
    values = (
        rng.standard_normal(shape)
        * np.exp2(np.minimum(rng.normal(0, spread, shape), 12))
        * (rng.random(shape) >= zeros)
    )
    return values.astype(kind).astype(np.float32)


@each("kind", [F16, BF16])
@each("depth", [1, 2, 31, 32, 33, 70, 200])
def test_an_aligned_sum_is_that_of_fractions(kind: np.dtype[Any], depth: int) -> None:
    rng = np.random.default_rng(depth)
    left, right = drawn(rng, kind, 3, depth, spread=3), drawn(rng, kind, depth, 4, spread=3)
    start = rng.standard_normal((3, 4)).astype(np.float32)
    wanted = [[float(aligned(row, column, begin)) for column, begin in zip(right.T.tolist(), line, strict=True)]
              for row, line in zip(left.tolist(), start.tolist(), strict=True)]  # fmt: skip
    assert np.array_equal(sums.aligned_matmul(left, right, start, F32), np.array(wanted, np.float32))


def test_an_aligned_sum_is_not_that_of_the_host() -> None:
    """1 and 31 times 2**-25: every small product is cut to nothing, though their sum is 8 units of the last place."""
    left, right = np.full((1, 32), 2.0**-25, np.float32), np.ones((32, 1), np.float32)
    left[0, 7] = 1
    assert sums.aligned_matmul(left, right, None, F32) == 1
    assert (left.astype(np.float64) @ right).astype(np.float32) == 1 + 2.0**-20


def test_cut_towards_zero_on_both_sides() -> None:
    """Cut to 2**-24 beside a one that goes away again, as seen on the vendor's model."""
    small = np.array([0.75, 1, 1.25, 1.75, 2.5, -0.75, -1.75, -2.5], np.float32) * 2.0**-24
    left = np.stack([np.ones_like(small), small, -np.ones_like(small)], 1).astype(np.float32)
    got = sums.aligned_matmul(left, np.ones((3, 1), np.float32), None, F32)[:, 0] * 2.0**24
    assert got.tolist() == [0, 1, 1, 1, 2, 0, -1, -2]


@each("kind", [F16, BF16])
@each("zeros", [0.0, 0.5, 0.97])
@each("spread", [0.0, 3.0])
def test_the_quick_way_to_16_bits_is_the_exact_one(kind: np.dtype[Any], zeros: float, spread: float) -> None:
    rng = np.random.default_rng(int(10 * zeros + spread))
    for depth in (3, 32, 300):
        left = drawn(rng, kind, 40, depth, zeros=zeros, spread=spread)
        right = drawn(rng, kind, depth, 200, zeros=zeros / 2, spread=spread)
        start = drawn(rng, F32, 40, 200, zeros=0.5)
        quick = sums.aligned_matmul(left, right, start, kind)
        exact = sums.aligned_matmul(left, right, start, F32)
        with np.errstate(over="ignore"):
            assert np.array_equal(quick.view(np.uint16), elementwise.canonical(exact.astype(kind)).view(np.uint16))


def test_bf16_products_below_the_normal_numbers_are_zeros() -> None:
    """32 products of 2**-127 would be 2**-122: the vendor's model gives 0; a product of 1.5 * 2**-126 stays."""
    tiny, other = np.full((1, 32), 2.0**-70, np.float32), np.full((32, 1), 2.0**-57, np.float32)
    assert sums.aligned_matmul(tiny, other, None, F32) == 0
    left, right = np.array([[2.0**-63]], np.float32), np.array([[1.5 * 2.0**-63]], np.float32)
    assert sums.aligned_matmul(left, right, None, BF16, 1).astype(np.float32) == np.float32(1.5 * 2.0**-126)


def test_infinities_that_meet_are_no_number() -> None:
    left = np.array([[np.inf, 1], [np.inf, -np.inf], [np.nan, 1], [-np.inf, 1]], np.float32)
    got = sums.aligned_matmul(left, np.ones((2, 1), np.float32), None, F32, 2)[:, 0]
    assert got.view(np.uint32).tolist() == [0x7F800000, 0xFFC00000, 0xFFC00000, 0xFF800000]


def test_terms_at_even_and_at_odd_places_have_totals_of_their_own() -> None:
    """2**24 swallows the one behind it in its own total only."""
    big = float(1 << 24)
    terms = [(np.array([value], np.float32), np.ones(1, np.float32)) for value in (big, 1.0, 1.0, 1.0, -big, 1.0)]
    assert sums.alternating_sum(terms, None, F32, plain=True) == 3  # ((2**24 + 1) - 2**24) + (1 + 1 + 1)
    products = np.array([[big, 1, 1, 1, -big, 1]], np.float32)
    assert sums.alternating_matmul(products, np.ones((6, 1), np.float32), None, None) == 3
    one = np.ones((1, 1), np.float32)
    # Alone, either value starts the odd total; of two the bias starts the even one, where 2**24 swallows it.
    assert sums.alternating_matmul(products, np.ones((6, 1), np.float32), one, None) == 4
    assert sums.alternating_matmul(products, np.ones((6, 1), np.float32), None, one) == 4
    assert sums.alternating_matmul(products, np.ones((6, 1), np.float32), one, one) == 4


def test_sums_of_16_bits_round_at_every_step() -> None:
    """2048 + 1 is 2048 in f16, twice."""
    terms = [(np.array([value], np.float16), np.ones(1, np.float16)) for value in (2048.0, 0.0, 1.0, 0.0, 1.0)]
    assert sums.alternating_sum(terms, None, F16, plain=True) == 2048


def test_wide_matrices_are_summed_like_narrow_ones() -> None:
    rng = np.random.default_rng(5)
    left, right = drawn(rng, F32, 70, 9), drawn(rng, F32, 9, 1200)
    whole = sums.alternating_matmul(left, right, left[:, :1], None)
    for column in (0, 511, 512, 1199):
        one = sums.alternating_matmul(left, right[:, column : column + 1], left[:, :1], None)
        assert np.array_equal(whole[:, column], one[:, 0])


@each(
    ("value", "iterations", "bits"),
    [(2.0, 1, 0x3F34F95E), (1.0, 3, 0x3F7FFFFF), (0.5, 3, 0x3FB504F4), (0.0, 3, 0x601AB3D4), (-1.0, 3, 0x7F800000)],
)
def test_reciprocal_roots_seen_on_the_vendors_model(value: float, iterations: int, bits: int) -> None:
    with np.errstate(all="ignore"):
        root = elementwise.reciprocal_root(np.array([value], np.float32), iterations)
    assert root.view(np.uint32)[0] == bits


@each(
    ("left", "right", "bits"),
    [
        (1.0, 0.0, 0x7F800000),
        (1.0, -1.0, 0xBF7FFFFE),
        (3e38, 3e38, 0x00000000),  # the square of the root is denormal
        (1.0, np.inf, 0x7F800000),  # the guess for infinity is an infinity
        (np.nan, -1.0, 0xFFC00000),
    ],
)
def test_quotients_seen_on_the_vendors_model(left: float, right: float, bits: int) -> None:
    got = elementwise.divide(np.array([left], np.float32), np.array([right], np.float32), 3)
    assert got.view(np.uint32)[0] == bits


def test_products_of_integers_that_floats_cannot_add_up_are_exact() -> None:
    """700 products of 127 and 255 are beyond 2**24: they are added up in parts."""
    random = np.random.default_rng(5)
    left, right = random.integers(120, 128, (3, 700)), random.integers(240, 256, (700, 4))
    left[1] *= -1
    found = exact_product(left.astype(np.int8), 255)(right.astype(np.uint8))
    assert found.dtype == np.int32
    assert found.tolist() == [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in right.T.tolist()] for row in left.tolist()
    ]


def test_single_products_beyond_what_floats_hold_are_added_one_by_one() -> None:
    """32767 * 511 is below 2**24, the sum with 32767 * 510 is an odd number above."""
    found = exact_product(np.array([[32767, 32767]]), 511)(np.array([[511], [510]]))
    assert found.tolist() == [[32767 * 1021]]
