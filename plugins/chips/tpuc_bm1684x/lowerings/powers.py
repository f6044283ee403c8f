"""Powers and quotients of floats."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Op, TensorType, Value, Wants
from tpuc_chip_parts.lowering import PowFloat
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, f32_result
from tpuc_bm1684x.lowerings.elementwise import BinaryFloat
from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(top.Div, *ALL)
class DivFloat(BinaryFloat):
    """Computes quotients in f32 in every mode: an 8-bit scale for their range loses their small values."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(self.tpu(node.op), node.operands, f32_result(node))]

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def tpu(self, op: top.Div, last: bool = True) -> Op:
        return tpu.Div(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(top.Pow, *FLOATS)
class PowF32(PowFloat):
    """Computes powers in f32."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,)

    def result(self, node: LoweringNode) -> TensorType:
        return f32_result(node)
