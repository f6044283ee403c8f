"""top.Mod."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, onnx_node

NUMBERS = f32(7, -7, 7.5, -0.5), f32(3, 3, -2, 2)


class TestMod(OpConformance):
    op = top.Mod()

    @staticmethod
    def reference(_x: Array, _y: Array) -> Array:
        return np.array([1, 2, -0.5, 1.5], np.float32)

    samples = (NUMBERS,)
    flops = 2


class TestFmod(OpConformance):
    op = top.Mod(fmod=True)
    reference = onnx_node("Mod", fmod=1)
    samples = (NUMBERS,)
    flops = 2
