"""Relu, leaky relu and PRelu."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import quantized_constant, slope_refusal
from tpuc_chip_parts.numbers import LeakyReluFloat
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import (
    ALL,
    FLOATS,
    INTEGERS,
    LOWEST_SHIFT,
    decompose8,
    float_operands,
)
from tpuc_bm1684x.lowerings.table import TABLE

TABLE.lowers(top.LeakyRelu, *FLOATS)(LeakyReluFloat)


@TABLE.lowers(top.PRelu, *FLOATS)
class PReluFloat(Lowering[top.PRelu]):
    """PRelu with slopes in the mode's float type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        return [build(tpu.PReluOp(), float_operands(node, build), node.float_result_type())]


@TABLE.lowers(top.PRelu, *INTEGERS)
class PReluInt8(Lowering[top.PRelu]):
    """Positive values are rescaled by Sx / Sy, negative ones by 8-bit slopes times Sx / Sy with a common shift."""

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        result = node.quantized_result_type()
        factor = node.operands[0].tensor.uniform.scale / result.uniform.scale
        multiplier, shift = decompose8(factor)
        stored, common = quantized_constant(slope * factor, LOWEST_SHIFT)
        op = tpu.PReluOp(rshift=common, multiplier_pos=multiplier, rshift_pos=shift)
        dims = node.operand_types[0].dims
        row = stored.reshape(1, -1, *(1,) * (len(dims) - 2))
        return [build(op, [node.operands[0], build.weight("slope_i8", row, "si8")], result)]


@TABLE.lowers(top.Relu, *ALL)
class ReluAny(Lowering[top.Relu]):
    """Clamps stored values; the result keeps the operand's type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor.at(None)
        return [build(tpu.Relu(relu_limit=node.op.relu_limit), node.operands, type_)]
