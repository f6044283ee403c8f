"""Which integers a chip computes with, by the names of its modes."""

from __future__ import annotations

import pytest
from tpuc.api import mode_bits

from tests.core.fakes import FakeChip


@pytest.mark.parametrize(
    ("mode", "bits"), [("int8", 8), ("int8-asym", 8), ("int16", 16), ("f16", 0), ("bf16", 0), ("integral", 0)]
)
def test_modes_say_how_wide_their_integers_are(mode: str, bits: int) -> None:
    assert mode_bits(mode) == bits


def test_a_quantized_network_gets_the_narrowest_integers_that_hold_it() -> None:
    one = FakeChip("one", ("f32", "int8", "int8-asym")).description
    assert (one.integer_bits, one.quantized_mode) == ((8,), "int8-asym")
    assert {one.quantized_mode_of(bits) for bits in (4, 8, 16, 32)} == {"int8-asym"}
    several = FakeChip("several", ("int16", "int4", "int8")).description
    assert several.integer_bits == (4, 8, 16)
    assert [several.quantized_mode_of(bits) for bits in (2, 4, 5, 8, 16, 32)] == [
        *("int4", "int4", "int8", "int8", "int16", "int16"),
    ]
    floats = FakeChip("floats", ("f16",)).description
    assert (floats.integer_bits, floats.quantized_mode) == ((8,), "int8")
