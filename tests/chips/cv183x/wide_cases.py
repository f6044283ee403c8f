"""Shapes beyond the size and stride fields of commands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import BF16, F32, TensorType
from tpuc_ops import tpu
from tpuc_testing import Typed, quantized, quantized_element, uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

QDM = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}
I8 = quantized_element("int8", 0.05)
ADD: Any = {"multipliers": (33, 27), "rshifts": (7,)}


def _bytes(*shape: int, seed: int = 0) -> Typed:
    return quantized(np.random.default_rng(seed).integers(-128, 127, shape, np.int8, endpoint=True), 0.05)


def _half(*shape: int, seed: int = 0) -> Typed:
    array = uniform(*shape, low=-4, high=4, seed=seed).astype(ml_dtypes.bfloat16)
    return Typed(array, TensorType(array.shape, BF16))


def _filter(*shape: int) -> Fixed:
    return Fixed(np.random.default_rng(1).integers(-127, 128, shape, np.int8), "si8")


def _bias(*shape: int) -> Fixed:
    return Fixed(np.random.default_rng(2).integers(-9000, 9000, shape, np.int32))


def _conv(kernel: tuple[int, int], channels: int, shift: int, **more: Any) -> tpu.Conv2D:
    return tpu.Conv2D(kernel_shape=kernel, multiplier=(1 << 30,) * channels, rshift=(shift,) * channels, **QDM, **more)


def _matmul(columns: int, shift: int) -> tpu.MatMul:
    return tpu.MatMul(multipliers=(1 << 30,) * columns, rshifts=(shift,) * columns, **QDM)


WIDE = {
    "columns": Sample(
        _conv((3, 3), 8, 9, pads=(1, 1, 1, 1)), [_bytes(1, 4, 5, 9000), _filter(8, 4, 3, 3), _bias(8)], I8
    ),
    "far_rows": Sample(_conv((3, 3), 8, 9, pads=(1, 1, 1, 1)), [_bytes(2, 2, 3, 70001), _filter(8, 2, 3, 3), None], I8),
    "rows": Sample(_conv((3, 1), 8, 9), [_bytes(1, 4, 9000, 2), _filter(8, 4, 3, 1), None], I8),
    "depth": Sample(_conv((1, 1), 40, 12), [_bytes(1, 5000, 3, 3), _filter(40, 5000, 1, 1), _bias(40)], I8),
    "channels": Sample(_conv((1, 1), 5000, 9), [_bytes(1, 8, 3, 3), _filter(5000, 8, 1, 1), _bias(5000)], I8),
    "floats": Sample(
        tpu.Conv2D(kernel_shape=(1, 1), scales=(2.0**-14,)),
        [_bytes(1, 8, 70, 90), _filter(3, 8, 1, 1), Fixed(uniform(3, seed=6))],
        F32,
    ),
    "own_filters": Sample(
        _conv((3, 3), 5000, 8, group=5000, pads=(1, 1, 1, 1)),
        [_bytes(1, 5000, 4, 4), _filter(5000, 1, 3, 3), _bias(5000)],
        I8,
    ),
    "pool": Sample(tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Max", strides=(2, 2)), [_half(2, 4, 4, 40000)], BF16),
    "batches": Sample(tpu.Add(**ADD), [_bytes(5000, 1, 1, 3), _bytes(5000, 1, 1, 3, seed=1)], I8),
    "sum_channels": Sample(tpu.Add(**ADD), [_bytes(1, 5000, 1, 7), _bytes(1, 5000, 1, 7, seed=1)], I8),
    "sum_columns": Sample(tpu.Add(), [_half(2, 2, 3, 40001), _half(1, 2, 3, 40001, seed=1)], BF16),
    "product_depth": Sample(_matmul(40, 12), [_bytes(3, 20000), _filter(20000, 40), None, None, None], I8),
    "product_rows": Sample(_matmul(40, 9), [_bytes(5000, 20), _filter(20, 40), None, None, None], I8),
    "product_columns": Sample(_matmul(9000, 9), [_bytes(3, 20), _filter(20, 9000), None, None, None], I8),
    "curve": Sample(tpu.Active(mode="SIGMOID"), [_half(1, 1, 1, 70001)], BF16),
    "permute": Sample(tpu.Permute(order=(0, 2, 1)), [_bytes(1, 3, 70001)], I8),
    "permute_floats": Sample(tpu.Permute(order=(0, 2, 1)), [_half(1, 5000, 7)], BF16),
    "concat": Sample(tpu.Concat(axis=1), [_bytes(1, 1, 70001), _bytes(1, 1, 70001, seed=2)], I8),
    "widen": Sample(tpu.Cast(), [_half(1, 1, 70001)], F32),
}
