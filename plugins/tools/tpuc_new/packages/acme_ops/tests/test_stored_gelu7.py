"""What the kernel's instructions compute is what `evaluate` says, and that is the definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from acme_ops.stored_gelu7 import StoredGelu7
from tpuc.api import F32, Node, ScalarType, TensorType, Uniform
from tpuc_testing.kernel_conformance import KernelConformance, Sample
from tpuc_testing.op_conformance import Typed

QUARTERS = Uniform(ScalarType("i8"), F32, 0.25)
"""int8 values that stand for quarters: -2 is stored as -8, 7 as 28."""
BYTES = StoredGelu7(low=-8.0, high=28.0)
FLOATS = StoredGelu7(low=-2.0, high=7.0)


def stored(*dims: int) -> Typed:
    """Every int8 value, again and again."""
    return Typed(np.resize(np.arange(-128, 128), dims).astype(np.int8), TensorType(dims, QUARTERS))


class TestStoredGelu7(KernelConformance):
    chip = "bm1684x"
    samples = {
        "bytes": Sample(BYTES, [stored(2, 70, 6, 5)], tilings=[{"n": 1}, {"h": 3}, {"c": 64, "w": 2}]),
        "floats": Sample(FLOATS, [np.linspace(-9, 9, 120, dtype=np.float32).reshape(1, 4, 6, 5)], tilings=[{"h": 2}]),
    }


def test_bytes_are_rounded_half_up() -> None:
    x = stored(256)
    (y,) = BYTES.evaluate(Node(BYTES, (x.type,), (x.type,)), [x.array])
    for q, found in zip(x.array.tolist(), y.tolist(), strict=True):
        exact = min(max(Fraction(q), Fraction(0)), Fraction(28)) + min(max(Fraction(q), Fraction(-8)), Fraction(0)) / 8
        assert found == (exact + Fraction(1, 2)) // 1
