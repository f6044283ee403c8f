"""Dequantization stated by the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, F64Array, Node, Op, Str, Types
from tpuc.api.text import I32Array

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.linear import check_parameters, per_axis


@dataclass(frozen=True)
class DequantizeLinear(Op):
    """``(x - x_zero_point) * x_scale``: one scale and zero point, or one for each index of `axis`.

    `of` is the type of the integers (INT8, UINT8, ...), if known; they are stored as float32.
    """

    name = "top.DequantizeLinear"
    x_scale: F64Array
    x_zero_point: I32Array
    axis: I64 = 1
    of: Str = ""

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        check_parameters(x.dims, self.x_scale, self.x_zero_point, self.axis)
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        return [(x - per_axis(self.x_zero_point, x.ndim, self.axis)) * per_axis(self.x_scale, x.ndim, self.axis)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
