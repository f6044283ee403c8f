"""Hard swish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node

from tpuc_ops import functions, quantized
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import FallsThenRises


@dataclass(frozen=True)
class HardSwish(Activation, FallsThenRises):
    """``x * clip(x / 6 + 1 / 2, 0, 1)``."""

    name = "top.HardSwish"
    active = "HSWISH"
    foreign = ("caffe.HardSwish", "onnx.HardSwish", "tflite.HARD_SWISH", "tpulang.hswish")
    flops_per_element = 5

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        return quantized.hard_swish(node, operands)

    def function(self, x: Array) -> Array:
        return x * functions.hard_sigmoid(x, 1 / 6, 0.5)
