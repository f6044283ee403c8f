"""top.Cast."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.narrow import narrowed
from tpuc_testing import OpConformance, f32

from tests.families import each


class TestToIntegers(OpConformance):
    op = top.Cast(to="INT8")

    @staticmethod
    def reference(_x: Array) -> Array:
        return np.array([1, -1, 0, 127, -128, 44], np.float32)

    samples = ([f32(1.9, -1.9, 0.4, 127, 128, 300)],)
    flops = 1


class TestToHalf(OpConformance):
    op = top.Cast(to="FLOAT16")

    @staticmethod
    def reference(x: Array) -> Array:
        return x.astype(np.float16).astype(np.float32)

    samples = ([f32(1, 1.0001, 65504, 1e-8)],)
    flops = 1


class TestToEightBits(OpConformance):
    op = top.Cast(to="FLOAT8E4M3FN")

    @staticmethod
    def reference(_x: Array) -> Array:
        return np.array([1, 1.125, 448, -448, 0.001953125], np.float32)

    samples = ([f32(1, 1.1, 1000, -1000, 0.002)],)
    flops = 1


@each(
    ("to", "values", "expected"),
    [
        ("BOOL", [0, 0.5, -3], [0, 1, 1]),
        ("UINT8", [-1, 256, 255.9], [255, 0, 255]),
        ("UINT4", [17, 3, -1], [1, 3, 15]),
        ("INT4", [8, 7, -9], [-8, 7, 7]),
        ("INT32", [1e12, -1e12, 7], [2**31 - 1, -(2**31), 7]),
        ("UINT64", [-5, 3, 2.5], [0, 3, 2]),
        ("BFLOAT16", [1.00390625, 1.01171875, 3], [1, 1.015625, 3]),  # ties to even
        ("FLOAT8E8M0", [1.25, 4, 0.3, 0], [2, 4, 0.5, 2.0**-127]),
        ("INT16", [np.nan, np.inf, 1], [0, 0, 1]),
    ],
)
def test_what_is_left(to: str, values: list[float], expected: list[float]) -> None:
    assert narrowed(f32(*values), to).astype(np.float64).tolist() == expected


def test_without_saturation_too_large_is_no_number() -> None:
    result = narrowed(f32(1000, 2), "FLOAT8E4M3FN", saturate=False).astype(np.float32)
    assert np.isnan(result[0])
    assert result[1] == 2
    assert float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max) == 448


def test_an_unknown_type() -> None:
    with pytest.raises(ValueError, match="there is no element type COMPLEX64"):
        narrowed(f32(1), "COMPLEX64")
