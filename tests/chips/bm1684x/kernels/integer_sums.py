"""Samples of integer products, most of which give their int32 sums, without multipliers."""

from __future__ import annotations

import dataclasses

from tpuc.api import ScalarType
from tpuc_ops import tpu
from tpuc_testing import integers
from tpuc_testing.kernel_conformance import Fixed, Sample

from tests.chips.bm1684x.kernels.samples import I8, conv_int8, i8, scales, u8

I32 = ScalarType("i32")
_PAD1 = (1, 1, 1, 1)


def _sums(op: tpu.Conv2D) -> tpu.Conv2D:
    """The convolution without multipliers: int32 sums are its result."""
    return dataclasses.replace(op, multiplier=(), rshift=())


PRODUCTS = {
    "dw_i8_sums": Sample(
        _sums(conv_int8(i8(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1)[0]),
        conv_int8(i8(2, 70, 9, 11), 70, (3, 3), group=70)[1],
        I32,
        ({"n": 1, "c": 64, "h": 4, "w": 5},),
    ),
    "group_u8_sums": Sample(
        _sums(conv_int8(u8(1, 96, 5, 5), 192, (1, 3), group=2, pads=(0, 1, 0, 1))[0]),
        conv_int8(u8(1, 96, 5, 5), 192, (1, 3), group=2)[1],
        I32,
        ({"c": 64}, {"c": 128, "h": 2}),
    ),
    "full_i8_sums": Sample(
        _sums(conv_int8(i8(2, 150, 7, 6), 70, (3, 3), strides=(2, 1), pads=_PAD1)[0]),
        conv_int8(i8(2, 150, 7, 6), 70, (3, 3))[1],
        I32,
        ({"n": 1, "c": 64, "h": 2, "w": 3, "k": 64},),
    ),
    "packed_u8_sums": Sample(
        _sums(conv_int8(u8(1, 3, 20, 20), 40, (3, 3), pads=_PAD1)[0]),
        conv_int8(u8(1, 3, 20, 20), 40, (3, 3))[1],
        I32,
        ({"h": 7},),
    ),
    "deconv_depthwise_i8": Sample(
        tpu.Deconv(
            kernel_shape=(3, 4),
            strides=(3, 2),
            pads=(1, 1, 0, 2),
            group=70,
            multiplier=scales(70)[0],
            rshift=scales(70)[1],
        ),
        [
            u8(2, 70, 5, 4),
            Fixed(integers(1, 70, 3, 4, seed=1), "si8"),
            Fixed(integers(70, dtype="int32", seed=2) >> 12),
        ],
        I8,
        ({"n": 1, "c": 64, "h": 1, "w": 3}, {"h": 4}),
    ),
    "deconv_depthwise_i8_sums": Sample(
        tpu.Deconv(kernel_shape=(3, 2), strides=(2, 2), pads=(0, 1, 1, 0), group=70),
        [i8(2, 70, 5, 4), Fixed(integers(1, 70, 3, 2, seed=1), "si8"), None],
        I32,
        ({"n": 1, "c": 64, "h": 3, "w": 5},),
    ),
    "deconv_i8_sums": Sample(
        tpu.Deconv(kernel_shape=(4, 3), strides=(2, 3), pads=(1, 1, 1, 1)),
        [
            i8(2, 20, 5, 4),
            Fixed(integers(70, 20, 4, 3, seed=1), "si8"),
            Fixed(integers(70, dtype="int32", seed=2) >> 12),
        ],
        I32,
        ({"n": 1, "c": 64, "h": 3, "w": 5},),
    ),
    "matmul_one_row_i8_sums": Sample(
        tpu.MatMul(),
        [i8(1, 130), Fixed(integers(130, 70, seed=3), "si8"), Fixed(integers(1, 70, dtype="int32")), None, None],
        I32,
        ({"c": 64, "k": 64},),
    ),
    "matmul_rows_i8_sums": Sample(
        tpu.MatMul(),
        [i8(70, 130), Fixed(integers(130, 130, seed=3), "si8"), Fixed(integers(1, 130, dtype="int32")), None, None],
        I32,
        ({"h": 64, "k": 64}, {"h": 128}),
    ),
}
ALL = {"integer-sums": PRODUCTS}
