"""Quantization stated by the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, F64Array, Node, Op, Str, Types
from tpuc.api.text import I32Array

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.linear import check_parameters, integer_range, per_axis


@dataclass(frozen=True)
class QuantizeLinear(Op):
    """``round(x / y_scale) + y_zero_point``, ties to even, saturated to the integers of `to` (INT8, UINT8, INT4, INT16,
    ...).

    There is one scale and zero point, or one for each index of `axis`. The integers are stored as float32.
    """

    name = "top.QuantizeLinear"
    y_scale: F64Array
    y_zero_point: I32Array
    axis: I64 = 1
    to: Str = "INT8"

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        check_parameters(x.dims, self.y_scale, self.y_zero_point, self.axis)
        integer_range(self.to)
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        scale, zero = per_axis(self.y_scale, x.ndim, self.axis), per_axis(self.y_zero_point, x.ndim, self.axis)
        return [np.clip(np.rint(x / scale) + zero, *integer_range(self.to)).astype(np.float32)]

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size
