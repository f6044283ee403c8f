"""Sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Sign(Function):
    """1, 0, or -1 with the sign of ``x``."""

    name = "top.Sign"
    active = "SIGN"
    foreign = ("onnx.Sign", "tflite.SIGN", "tpulang.sign")

    def function(self, x: Array) -> Array:
        return np.sign(x)
