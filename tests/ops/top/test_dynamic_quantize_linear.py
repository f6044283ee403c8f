"""top.DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, uniform


class TestDynamicQuantizeLinear(OpConformance):
    op = top.DynamicQuantizeLinear()

    @staticmethod
    def reference(x: Array) -> Sequence[Array]:
        least, greatest = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
        scale = np.float32(np.float32(np.float32(greatest) - np.float32(least)) / np.float32(255)) or np.float32(1)
        zero = round(float(np.float32(-least) / scale))  # Python rounds ties to even, too
        whole = np.array([min(round(float(v)) + zero, 255) - zero for v in (x / scale).ravel()], np.float32)
        return [whole.reshape(x.shape), np.array(scale), np.array(zero, np.float32)]

    samples = (
        [uniform(2, 5, 3)],
        [f32(0, 0, 0)],
        [f32(3, 255, 0.5, 1.5)],
        [f32(-1.5, 253.5, 2.5, 0)],
        [f32(-3, -0.25)],
    )
    flops = (4 * 2 * 5 * 3, 4 * 3, 4 * 4, 4 * 4, 4 * 2)
