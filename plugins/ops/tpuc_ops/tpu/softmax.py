"""Softmax as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import F64, Bool, Node, Op, Raw, RoundMode, Types, numpy_dtype

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import FormerI64, listed
from tpuc_ops.integers import is_integer
from tpuc_ops.quant.arithmetic import Rounding, quantize_product
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.softmax import softmax


@dataclass(frozen=True)
class Softmax(Op):
    """``exp(beta * x)`` divided by its sum along `axis`, or its logarithm with `log`; computed in float32.

    Integers: the first table operand holds ``exp(-i * beta * scale)`` for i in 0..255. With the largest integer m along
    the axis, the value is ``table[m - q] / sum(table[m - q])``, or ``(q - m) * beta * scale - log(sum)``. Float results
    are multiplied by `factor`; integer results by ``f32(1 / result scale)``, rounded by `round_mode`, plus the zero
    point. Further operands, for chips, are ignored.
    """

    name = "tpu.Softmax"
    slots = listed(6, kept=1)
    axis: FormerI64 = -1
    beta: F64 = 1.0
    log: Bool = False
    round_mode: RoundMode = "HalfAwayFromZero"
    factor: F64 = field(default=1.0, kw_only=True)
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        positive_axis(self.axis, x.rank)
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0]
        if not is_integer(node.operand_types[0]):
            return [stored(softmax(as_float(x), self.axis, self.beta, self.log), node.result_type)]
        values = self._of_integers(x, as_float(operands[1]).reshape(-1), node.operand_types[0].uniform.scale)
        if not is_integer(node.result_type):
            return [stored(values * np.float32(self.factor), node.result_type)]
        uniform = node.result_type.uniform
        factor, rounding = np.float32(1.0 / uniform.scale), Rounding(self.round_mode)
        dtype = numpy_dtype(uniform.storage)
        return [quantize_product(values, factor, uniform.zero_point, rounding, dtype)]

    def _of_integers(self, x: Array, table: Array, scale: float) -> Array:
        distances = x.max(self.axis, keepdims=True).astype(np.int64) - x
        exponentials = table[distances]
        sums = exponentials.sum(self.axis, keepdims=True)
        if self.log:
            return distances * np.float32(-self.beta * scale) - elementary.log(sums)
        return exponentials / sums

    def flops(self, node: Node) -> int:
        return 5 * node.result_type.size
