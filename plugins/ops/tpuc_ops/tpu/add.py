"""Sum of tensors as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Bool, Commutative, Elementwise, F64Array, I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import ReluFields, broadcast_type, weighted
from tpuc_ops.integers import clamped, is_integer, rescaled_sum, zero_point


@dataclass(frozen=True)
class Add(ReluFields, Op, Elementwise, Commutative):
    """The sum of all operands with broadcasting, then relu.

    Floats: ``coeff[i] * x[i]`` and their sum in float32, rounded to the result's width. Integers, exact:

    - as many `rshifts` as operands: ``t[i] = int16(half_up((q[i] - zp[i]) * multipliers[i] / 2**rshifts[i]))`` with
      saturation, then ``sum(t)``;
    - one shift more: ``half_up(sum(t) / 2**rshifts[-1])`` of the same ``t``;
    - a single shift: ``half_up(sum((q[i] - zp[i]) * multipliers[i]) / 2**rshift)``.

    Then plus the result's zero point, relu at the zero point, saturated to the result's storage.
    """

    name = "tpu.Add"
    multipliers: I64Array = ()
    rshifts: I64Array = ()
    coeff: F64Array | None = None
    is_scalar: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        if any(map(is_integer, operands)) and len(self.multipliers) != len(operands):
            raise ValueError(f"{len(self.multipliers)} multipliers do not fit {len(operands)} integer operands")
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        type = node.result_type
        if is_integer(type):
            signs = (1,) * len(operands)
            total = rescaled_sum(operands, node.operand_types, self.multipliers, self.rshifts, signs)
            return [clamped(total + zero_point(type), type, self.do_relu, self.relu_limit)]
        first, *others = weighted([as_float(x) for x in operands], self.coeff)
        for x in others:
            first = first + x
        return [stored(self.activate(first), type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1 + self.do_relu)
