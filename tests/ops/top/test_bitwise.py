"""top.Bitwise."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32

from tests.families import each


class TestAnd(OpConformance):
    op = top.Bitwise(mode="And")

    @staticmethod
    def reference(_x: Array, _y: Array) -> Array:
        return np.array([8, 0, 5], np.float32)

    samples = ([f32(12, 3, -3), f32(10, 4, 7)],)
    flops = 1


@each(
    ("mode", "bits", "expected"),
    [
        ("Or", 0, [14, 11]),
        ("Xor", 0, [6, 8]),
        ("ShiftLeft", 0, [12 << 10, 3 << 11]),
        ("ShiftLeft", 8, [0, 0]),
        ("ShiftRight", 0, [0, 0]),
    ],
)
def test_modes(mode: str, bits: int, expected: list[int]) -> None:
    (result,) = top.Bitwise(mode=mode, bits=bits).evaluate(None, [f32(12, 3), f32(10, 11)])  # type: ignore[arg-type]
    assert result.tolist() == expected
