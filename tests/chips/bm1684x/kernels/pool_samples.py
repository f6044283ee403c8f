"""Kernel samples of pooling over rows first and then over columns."""

from __future__ import annotations

import numpy as np
from tpuc.api import TensorType
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample

from tests.chips.bm1684x.kernels.samples import I8, U8, f32, i8, u8

_TILES = ({"n": 1, "h": 2, "w": 3}, {"h": 3})


def _f16(*shape: int) -> np.ndarray:
    return f32(*shape).astype(np.float16)


ALL = {
    "strided_i8": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), do_relu=True),
        [i8(2, 70, 19, 13)],
        TensorType((2, 70, 10, 7), I8),
        _TILES,
    ),
    "halved_u8": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(2, 2), strides=(2, 2)),
        [u8(3, 5, 14, 18)],
        TensorType((3, 5, 7, 9), U8),
        _TILES,
    ),
    "wide_f16": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(5, 4), strides=(2, 3), pads=(2, 1, 1, 2)),
        [_f16(1, 9, 20, 31)],
        None,
        _TILES,
    ),
    "global_f32": Sample(tpu.Pool2D(pool_mode="Avg", kernel_shape=(23, 17)), [f32(2, 70, 23, 17)]),
    "global_f16": Sample(tpu.Pool2D(pool_mode="Avg", kernel_shape=(16, 32)), [_f16(3, 65, 16, 32)]),
    "global_max_f32": Sample(tpu.Pool2D(pool_mode="Max", kernel_shape=(23, 17)), [f32(2, 7, 23, 17)]),
    "padded_f16": Sample(
        tpu.Pool2D(
            pool_mode="Avg",
            kernel_shape=(6, 5),
            strides=(3, 2),
            pads=(2, 1, 2, 3),
            count_include_pad=True,
            do_relu=True,
        ),
        [_f16(1, 66, 23, 29)],
        None,
        _TILES,
    ),
}
