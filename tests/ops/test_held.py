"""Constants become numbers of a float type without becoming infinite."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.ir import ScalarType
from tpuc_chip_parts.held import held, held_number

from tests.families import each

F32_MAX = float(np.finfo(np.float32).max)
# (2 - 2^-mantissa bits) * 2^largest exponent
LARGEST = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127, "f32": F32_MAX}
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


@each("name", LARGEST)
def test_numbers_beyond_a_type_become_its_largest(name: str) -> None:
    kind, largest = ScalarType(name), LARGEST[name]
    for number in (F32_MAX, 1e39, 1e300, largest, 2.0 * largest):
        for sign in (-1.0, 1.0):
            wanted = sign * min(number, largest)
            assert abs(held_number(sign * number, kind) - wanted) <= 2.0**-9 * abs(wanted)
            assert math.isfinite(held_number(sign * number, kind))


@each("name", LARGEST)
def test_infinities_stay_where_the_chip_has_them(name: str) -> None:
    array = np.array([-np.inf, 0.0, np.inf, np.nan], np.float32)
    kind, largest = ScalarType(name), LARGEST[name]
    np.testing.assert_array_equal(held(array, kind).astype(np.float64), array)
    there = held(array, kind, has_infinity=False).astype(np.float64)
    np.testing.assert_array_equal(there, [-largest, 0.0, largest, np.nan])


@each("name", LARGEST)
@each("source", [np.float32, np.float64, np.float16, np.int32])
def test_numbers_within_a_type_are_rounded_to_nearest(name: str, source: type[np.generic]) -> None:
    rng = np.random.default_rng(0)
    array: NDArray[np.generic] = (rng.standard_normal(1000) * 500).astype(source)
    wanted = array.astype(np.float32).astype(DTYPES[name])
    np.testing.assert_array_equal(held(array, ScalarType(name)), wanted)
    assert held(array, ScalarType(name)).dtype == DTYPES[name]
