"""What float types hold, and the sentence about what they do not."""

from __future__ import annotations

import math

import numpy as np
from tpuc.ir import ScalarType
from tpuc_driver.session.overflow import Overflow, has_limits, is_narrow, limit_of, magnitudes, merged, sentences

from tests.families import each

F16 = ScalarType("f16")


@each(
    ("name", "limit"),
    [
        # (2 - 2^-mantissa bits) * 2^largest exponent; the last code of E4M3FN is NaN
        ("f16", (2 - 2.0**-10) * 2.0**15),
        ("bf16", (2 - 2.0**-7) * 2.0**127),
        ("f32", (2 - 2.0**-23) * 2.0**127),
        ("f8E4M3FN", 1.75 * 2.0**8),
        ("f8E5M2", 1.75 * 2.0**15),
    ],
)
def test_the_largest_number_of_every_float_type(name: str, limit: float) -> None:
    assert limit_of(ScalarType(name)) == limit
    assert is_narrow(ScalarType(name)) == (limit < 1e38)


def test_only_modes_of_narrow_floats_have_limits() -> None:
    assert [mode for mode in ("f32", "bf16", "f16", "int8", "int8-asym") if has_limits(mode)] == ["f16"]


def test_numbers_that_stand_for_infinity_have_no_magnitude() -> None:
    values = {
        "a": np.array([-3.4e38, 2.0, -7.0]),
        "b": np.array([-math.inf]),
        "c": np.array([True]),
        "d": np.array([9]),
    }
    assert magnitudes(values) == {"a": 7.0, "b": 0.0, "d": 9.0}
    assert merged(({"a": 1.0, "b": 2.0}, {"a": 3.0})) == {"a": 3.0, "b": 2.0}


def test_the_sentence_names_the_largest_and_a_way_out() -> None:
    sizes = {"a": 7e4, "b": 9e5, "c": 8e4, "d": 1e6, "e": 7e4, "f": 2e5}
    found = [Overflow("value", name, F16, size) for name, size in sizes.items()]
    (text,) = sentences(found, ("f32", "f16", "bf16", "int8"))
    assert text == (
        "f16 (largest value 65,504) cannot represent value 'd' up to 1e+06, value 'b' up to 900,000, value "
        "'f' up to 200,000, value 'c' up to 80,000 and 2 more: they become infinite; keep the ops around them in f32 "
        "or bf16 (--quantize-table), or all with --quantize"
    )
    (alone,) = sentences(found[:1], ("f16", "int8"))
    assert alone.endswith("value 'a' up to 70,000: they become infinite; scale them down")
    assert sentences([], ("f32",)) == []
