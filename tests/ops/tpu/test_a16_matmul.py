"""tpu.A16MatMul."""

from __future__ import annotations

import numpy as np
from tpuc_ops import tpu
from tpuc_testing import OpConformance, uniform

from tests.ops.top.test_a16_matmul import PACKED, SCALE, ZP, by_hand


class TestA16MatMul(OpConformance):
    """In f32 nothing is rounded; rounding is compared on the chip."""

    op = tpu.A16MatMul(weight_bits=4, q_group_size=32)
    reference = staticmethod(by_hand)
    samples = [uniform(2, 5, 30), PACKED, SCALE, ZP, uniform(3)], [uniform(1, 32), PACKED, SCALE, ZP, None]
    flops = (1800, 192)


def test_floats_need_no_tables() -> None:
    random = np.random.default_rng(0)
    x, matrix = random.normal(size=(2, 40)).astype("f4"), random.normal(size=(3, 40)).astype("f4")
    real = tpu.A16MatMul(weight_bits=16).real(matrix, np.zeros(0), np.zeros(0), 40)
    assert np.array_equal(x @ real.T, x @ matrix.T)
