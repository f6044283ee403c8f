"""Convolutions and copies of values with zero points: padding holds the operand's, the bias brings the result's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tpuc.api import ABSENT, Op, ScalarType, TensorType
from tpuc.testing import quantised, quantised_element
from tpuc.testing.kernel_conformance import Fixed, Sample
from tpuc_ops import tpu

QDM: Any = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}


def _conv(channels: int, group: int = 1) -> tpu.Conv2D:
    multipliers = tuple((1 << 22) + 7919 * channel for channel in range(channels))
    return tpu.Conv2D(
        kernel_shape=(3, 3),
        pads=(1, 1, 1, 1),
        group=group,
        multiplier=multipliers,
        rshift=(0,) * channels,
        offset_in_bias=True,
        **QDM,
    )


def _filters(*shape: int) -> Fixed:
    return Fixed(np.random.default_rng(1).integers(-127, 128, shape, np.int8), "si8")


def _bias(channels: int) -> Fixed:
    return Fixed(np.random.default_rng(2).integers(-20000, 20000, (1, channels, 1, 1), np.int32))


def _bytes(*shape: int, dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, shape, dtype, endpoint=True)


STATED = {
    "conv_zero_points": Sample(
        _conv(40),
        [quantised(_bytes(1, 35, 9, 9, dtype="uint8"), 0.05, 131), _filters(40, 35, 3, 3), _bias(40)],
        quantised_element("uint8", 0.05, 120),
        [{"k": 32}, {"h": 2, "w": 4}],
    ),
    "depthwise_zero_points": Sample(
        _conv(40, group=40),
        [quantised(_bytes(2, 40, 9, 7, dtype="int8"), 0.05, -60), _filters(40, 1, 3, 3), _bias(40)],
        quantised_element("int8", 0.05, 9),
        [{"c": 32, "h": 3}],
    ),
    "repeated_zero_points": Sample(
        tpu.Upsample(scale_h=3, scale_w=1),
        [quantised(_bytes(2, 40, 9, 7, dtype="uint8"), 0.05, 131)],
        quantised_element("uint8", 0.05, 131),
        [{"h": 6}],
    ),
}

_POINT = quantised_element("int8", 0.05, 3)
_TYPES = [TensorType((1, 40, 9, 9), _POINT), TensorType((40, 40, 3, 3), ScalarType("si8")), ABSENT]
_RESULT = TensorType((1, 40, 9, 9), _POINT)
REFUSALS: dict[str, tuple[Op, list[TensorType], TensorType, str]] = {
    "zero_point_of_sums": (
        replace(_conv(40), offset_in_bias=False),
        _TYPES,
        _RESULT,
        "the bias must have the zero point, which is 3",
    ),
    "relu_beside_zero_point": (
        replace(_conv(40), do_relu=True),
        _TYPES,
        _RESULT,
        "a relu clamps stored integers at 0, the zero point is another",
    ),
}
