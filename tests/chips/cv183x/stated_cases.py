"""Convolutions and copies of values with zero points: padding holds the operand's, the bias brings the result's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tpuc.api import ABSENT, Op, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_testing import quantized, quantized_element
from tpuc_testing.kernel_conformance import Fixed, Sample

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


_BEYOND = {(3, 1, 0, 2): 254, (3, 34, 2, 2): -256, (20, 32, 1, 1): 130, (99, 1, 0, 0): -129}


def _wide_filters(*shape: int) -> Fixed:
    """Bytes, but for some numbers."""
    filters = np.random.default_rng(1).integers(-128, 128, shape, np.int16)
    for place, number in _BEYOND.items():
        filters[place] = number
    return Fixed(filters, "si16")


def _wide_depthwise(channels: int) -> Fixed:
    filters = np.random.default_rng(1).integers(-128, 128, (channels, 1, 3, 3), np.int16)
    filters[3, 0, 0, 2], filters[20, 0, 1], filters[99, 0, 2, 2] = 254, -256, -129
    return Fixed(filters, "si16")


def _wide_conv(channels: int) -> tpu.Conv2D:
    places = tuple(channel for place in _BEYOND for channel in place[:2])
    return replace(_conv(channels), strides=(1, 2), wide=places)


def _bias(channels: int) -> Fixed:
    return Fixed(np.random.default_rng(2).integers(-20000, 20000, (1, channels, 1, 1), np.int32))


def _bytes(*shape: int, dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, shape, dtype, endpoint=True)


STATED = {
    "conv_zero_points": Sample(
        _conv(40),
        [quantized(_bytes(1, 35, 9, 9, dtype="uint8"), 0.05, 131), _filters(40, 35, 3, 3), _bias(40)],
        quantized_element("uint8", 0.05, 120),
        [{"k": 32}, {"h": 2, "w": 4}],
    ),
    "conv_beyond_bytes": Sample(
        _wide_conv(100),
        [quantized(_bytes(2, 35, 9, 9, dtype="uint8"), 0.05, 131), _wide_filters(100, 35, 3, 3), _bias(100)],
        quantized_element("uint8", 0.05, 120),
        [{"c": 32}, {"c": 64, "h": 2, "w": 4}],
    ),
    "depthwise_beyond_bytes": Sample(
        replace(_conv(100, group=100), strides=(1, 2), wide=(3, 0, 20, 0, 99, 0)),
        [quantized(_bytes(2, 100, 9, 9, dtype="uint8"), 0.05, 131), _wide_depthwise(100), _bias(100)],
        quantized_element("uint8", 0.05, 120),
        [{"c": 32}, {"c": 64, "h": 2, "w": 4}],
    ),
    "depthwise_zero_points": Sample(
        _conv(40, group=40),
        [quantized(_bytes(2, 40, 9, 7, dtype="int8"), 0.05, -60), _filters(40, 1, 3, 3), _bias(40)],
        quantized_element("int8", 0.05, 9),
        [{"c": 32, "h": 3}],
    ),
    "repeated_zero_points": Sample(
        tpu.Upsample(scale_h=3, scale_w=1),
        [quantized(_bytes(2, 40, 9, 7, dtype="uint8"), 0.05, 131)],
        quantized_element("uint8", 0.05, 131),
        [{"h": 6}],
    ),
}

_POINT = quantized_element("int8", 0.05, 3)
_TYPES = [TensorType((1, 40, 9, 9), _POINT), TensorType((40, 40, 3, 3), ScalarType("si8")), ABSENT]
_RESULT = TensorType((1, 40, 9, 9), _POINT)
REFUSALS: dict[str, tuple[Op, list[TensorType], TensorType, str]] = {
    "zero_point_of_sums": (
        replace(_conv(40), offset_in_bias=False),
        _TYPES,
        _RESULT,
        "the bias must include the zero point, which is 3",
    ),
    "relu_beside_zero_point": (
        replace(_conv(40), do_relu=True),
        _TYPES,
        _RESULT,
        "a relu needs zero point 0, this one is 3",
    ),
}
