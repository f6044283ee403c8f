"""Product of floats with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, held, stored
from tpuc_ops.elementwise import ReluFields


@dataclass(frozen=True)
class MulConst(ReluFields, Op, Elementwise):
    """``x * const_val`` in float32, then relu; `tpu.MulShift` serves integers."""

    name = "tpu.MulConst"
    const_val: F64
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if not x.storage.is_float:
            raise ValueError(f"floats are needed, this operand stores {x.storage}; use tpu.MulShift")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [
            stored(self.activate(as_float(operands[0]) * held(self.const_val, node.operand_types[0])), node.result_type)
        ]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
