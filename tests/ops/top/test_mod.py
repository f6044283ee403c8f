"""top.Mod."""

from __future__ import annotations

import numpy as np
from tpuc.testing import OpConformance, f32, onnx_node
from tpuc_ops.arrays import Array
from tpuc_ops.top.mod import Mod

NUMBERS = f32(7, -7, 7.5, -0.5), f32(3, 3, -2, 2)


class TestMod(OpConformance):
    op = Mod()

    @staticmethod
    def reference(_x: Array, _y: Array) -> Array:
        return np.array([1, 2, -0.5, 1.5], np.float32)

    samples = (NUMBERS,)


class TestFmod(OpConformance):
    op = Mod(fmod=True)
    reference = onnx_node("Mod", fmod=1)
    samples = (NUMBERS,)
