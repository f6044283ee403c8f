"""Rectified linear unit on stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, relu, stored
from tpuc_ops.integers import clamped, is_integer


@dataclass(frozen=True)
class Relu(Op, Elementwise):
    """``max(x, 0)``, limited to a positive `relu_limit`.

    Operand and result share their scale; integers are clamped between the result's zero point and ``round(relu_limit /
    scale) + zero point``.
    """

    name = "tpu.Relu"
    relu_limit: F64 = -1.0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        if is_integer(node.result_type):
            return [clamped(x, node.result_type, True, self.relu_limit)]
        return [stored(relu(as_float(x), True, self.relu_limit), node.result_type)]

    def flops(self, node: Node) -> int:
        (x,) = node.operand_types
        return 2 * x.size if self.relu_limit > 0 else x.size
