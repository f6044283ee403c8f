"""Concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import SI32, Bool, Node, Op, Str, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.shapes import concatenated
from tpuc_ops.traits import Concatenates, NoLarger, Traceable


@dataclass(frozen=True)
class Concat(ReluFields, Op, quantized.Rescales, Concatenates, NoLarger, Traceable):
    """Concatenate all operands along `axis`, then relu."""

    name = "top.Concat"
    axis: SI32 = 1
    only_merge: Bool = False
    round_mode: Str = field(default="HalfAwayFromZero", kw_only=True)

    def infer(self, operands: Types) -> Types:
        dims = concatenated([operand.dims for operand in operands], self.axis)
        return (operands[0].shape_only().with_shape(dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.concat(self, node, operands)]
        return [self.activate(np.concatenate([as_float(x) for x in operands], self.axis))]

    def flops(self, node: Node) -> int:
        return node.result_type.size * self.do_relu
