"""Quantization by the range of the operand, determined at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array, as_float

STEPS = 255
"""Steps in the range of unsigned bytes."""


@dataclass(frozen=True)
class DynamicQuantizeLinear(Op):
    """ONNX's operator with three results; the integers exclude the zero point: from ``-zero`` to ``255 - zero``.

    The scale is 1/255 of the range of all elements and 0, or 1 if that range is empty; the zero point is ``round(-least
    / scale)``, the integers are ``round(x / scale)``, ties to even. All results are stored as float32.
    """

    name = "top.DynamicQuantizeLinear"

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        number = x.shape_only().with_shape(())
        return (x.shape_only(), number, number)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        least, greatest = x.min(initial=np.float32(0)), x.max(initial=np.float32(0))
        scale = np.float32((greatest - least) / np.float32(STEPS)) or np.float32(1)
        zero = np.rint(-least / scale)
        return [np.minimum(np.rint(x / scale), STEPS - zero), np.array(scale), np.array(zero)]

    def flops(self, node: Node) -> int:
        return 4 * node.operand_types[0].size
