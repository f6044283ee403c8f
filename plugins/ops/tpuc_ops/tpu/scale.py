"""Scale and bias per channel as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import listed
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding, shift_right
from tpuc_ops.shapes import is_absent, show
from tpuc_ops.traits import RowByRow


@dataclass(frozen=True)
class Scale(ReluFields, Op, RowByRow):
    """``x * scale + bias`` per channel, then relu: `x: [n, c, ...]`, scale, bias and left shift with `c` elements.

    Integers, exact: ``half_up(((q - zp) * scale + bias) / 2**-lshift)`` with int8 scale, int16 or int32 bias and the
    fourth operand lshift, which is negative for a right shift; plus the result's zero point, saturated.
    """

    name = "tpu.Scale"
    slots = listed(4, kept=3)
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x, *others = operands
        for label, type in zip(("scale", "bias", "lshift"), others, strict=False):
            if not is_absent(type) and type.size != x.dims[1]:
                raise ValueError(f"{label} {show(type.dims)} does not fit {x.dims[1]} channels")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, type = operands[0], node.result_type
        scale, *others = (operand.reshape(-1, *(1,) * (x.ndim - 2)) for operand in operands[1:4])
        bias = others[0] if others and others[0].size else np.zeros(1, np.int32)
        if not is_integer(type):
            return [stored(self.activate(as_float(x) * as_float(scale) + as_float(bias)), type)]
        total = (x.astype(np.int64) - zero_point(node.operand_types[0])) * scale.astype(np.int64) + bias
        if len(others) > 1 and others[1].size:
            total = shift_right(total, -others[1].astype(np.int64), Rounding.HALF_UP)
        return [clamped(total + zero_point(type), type, self.do_relu, self.relu_limit)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (2 + self.do_relu)
