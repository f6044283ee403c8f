"""Concatenation in one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Bool, I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, rescaled, zero_point
from tpuc_ops.shapes import concatenated, positive_axis


@dataclass(frozen=True)
class Concat(ReluFields, Op):
    """Concatenate all operands along `axis`, then relu.

    Integers are copied; with `multipliers` and `rshifts`, one pair per operand, each operand is first requantized to
    the result's scale: ``half_up((q - zp) * multiplier / 2**rshift)`` plus the result's zero point, saturated.
    """

    name = "tpu.Concat"
    axis: SI32 = 1
    multipliers: I64Array | None = None
    rshifts: I64Array | None = None
    only_merge: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        # A constant does not say what its integers mean.
        first = next((operand for operand in operands if operand.is_quantized), operands[0])
        dims = concatenated([operand.dims for operand in operands], self.axis)
        return ((first if not self.multipliers else first.shape_only()).with_shape(dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        type = node.result_type
        axis = positive_axis(self.axis, operands[0].ndim)
        if not is_integer(type):
            return [stored(self.activate(np.concatenate([as_float(x) for x in operands], axis)), type)]
        parts: Sequence[Array] = operands
        if self.multipliers:
            pairs = zip(operands, node.operand_types, self.multipliers, self.rshifts or (), strict=True)
            parts = [rescaled(*pair) + zero_point(type) for pair in pairs]
        whole = np.concatenate(parts, axis)
        return [clamped(whole, type, self.do_relu, self.relu_limit)]
