"""Samples of products of networks that are quantized already: float factors, and filters beyond signed bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc_ops import tpu
from tpuc_testing import integers, quantized, quantized_element
from tpuc_testing.kernel_conformance import Fixed, Sample

from tests.chips.bm1684x.kernels.samples import U8, conv_int8, i8, u8

_PAD1 = (1, 1, 1, 1)
_POINT = quantized_element("int8", 0.05, -9)
_UNSIGNED_POINT = quantized_element("uint8", 0.05, 9)


def _factors(channels: int) -> tuple[float, ...]:
    return tuple(float(np.float32(2.0**-7 / (3 + c))) for c in range(channels))


def _floats(op: tpu.Conv2D, **fields: object) -> tpu.Conv2D:
    """The convolution with a float factor per channel."""
    scales = _factors(len(op.multiplier))
    return dataclasses.replace(op, multiplier=(), rshift=(), scales=scales, round_mode="HalfToEven", **fields)  # type: ignore[arg-type]


PRODUCTS = {
    "dw_u8_floats": Sample(
        _floats(conv_int8(u8(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1)[0]),
        conv_int8(u8(2, 70, 9, 11), 70, (3, 3), group=70)[1],
        U8,
        ({"n": 1, "c": 64, "h": 4, "w": 5},),
    ),
    "full_u8_floats_unsigned_filter": Sample(
        _floats(conv_int8(u8(2, 150, 7, 6), 70, (3, 3), strides=(2, 1), pads=_PAD1)[0], kernel_zp=133),
        [
            u8(2, 150, 7, 6),
            Fixed(integers(70, 150, 3, 3, dtype="uint8", seed=1), "ui8"),
            conv_int8(u8(2, 150, 7, 6), 70, (3, 3))[1][2],
        ],
        U8,
        ({"n": 1, "c": 64, "h": 2, "w": 3, "k": 64},),
    ),
    "packed_i8_floats_unsigned_filter": Sample(
        _floats(conv_int8(i8(1, 3, 20, 20), 40, (3, 3), pads=_PAD1)[0], kernel_zp=120),
        [
            quantized(integers(1, 3, 20, 20), 0.05, 7),
            Fixed(integers(40, 3, 3, 3, dtype="uint8", seed=1), "ui8"),
            conv_int8(i8(1, 3, 20, 20), 40, (3, 3))[1][2],
        ],
        _POINT,
        ({"h": 7},),
    ),
    "group_u8_floats_unsigned_filter": Sample(
        _floats(conv_int8(u8(1, 96, 5, 5), 192, (1, 3), group=2, pads=(0, 1, 0, 1))[0], kernel_zp=120),
        [
            u8(1, 96, 5, 5),
            Fixed(integers(192, 48, 1, 3, dtype="uint8", seed=1), "ui8"),
            conv_int8(u8(1, 96, 5, 5), 192, (1, 3), group=2)[1][2],
        ],
        U8,
        ({"c": 64}, {"c": 128, "h": 2}),
    ),
    "dw_i8_floats_wide_filter": Sample(
        _floats(conv_int8(i8(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1)[0]),
        [
            quantized(integers(2, 70, 9, 11), 0.05, 7),
            Fixed(integers(70, 1, 3, 3, dtype="uint8", seed=1).astype(np.int16) - 110, "si16"),
            conv_int8(i8(2, 70, 9, 11), 70, (3, 3), group=70)[1][2],
        ],
        _POINT,
        ({"n": 1, "c": 64, "h": 4, "w": 5},),
    ),
    "full_u8_floats_point": Sample(
        _floats(conv_int8(u8(2, 70, 7, 6), 70, (1, 1))[0]),
        conv_int8(u8(2, 70, 7, 6), 70, (1, 1))[1],
        _UNSIGNED_POINT,
        ({"n": 1, "c": 64, "h": 4, "k": 64},),
    ),
    "dw_u8_floats_point": Sample(
        _floats(conv_int8(u8(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1)[0]),
        conv_int8(u8(2, 70, 9, 11), 70, (3, 3), group=70)[1],
        _UNSIGNED_POINT,
        ({"n": 1, "c": 64, "h": 4, "w": 5},),
    ),
    "matmul_u8_floats_unsigned_filter": Sample(
        tpu.MatMul(scales=_factors(70), round_mode="HalfToEven", right_zp=120),
        [
            u8(9, 130),
            Fixed(integers(130, 70, dtype="uint8", seed=3), "ui8"),
            Fixed(integers(1, 70, dtype="int16").astype(np.int32)),
            None,
            None,
        ],
        U8,
    ),
}

ALL = {"stated products": PRODUCTS}
