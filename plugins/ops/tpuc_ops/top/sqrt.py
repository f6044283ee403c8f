"""Square root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.quantized import function_of_one


@dataclass(frozen=True)
class Sqrt(Function):
    """``sqrt(x)``, NaN below 0. For stored integers, it rounds down, as TFLite does for this function only."""

    name = "top.Sqrt"
    active = "SQRT"
    foreign = ("onnx.Sqrt", "tflite.SQRT", "tpulang.sqrt")

    def function(self, x: Array) -> Array:
        return np.sqrt(x)

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        return function_of_one(node, operands, self.function, Rounding.DOWN)
