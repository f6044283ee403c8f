"""Relu, leaky relu and PRelu."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import STEPS, is_stated, quantized_constant, slope_refusal
from tpuc_chip_parts.numbers import LeakyReluFloat
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import (
    ALL,
    FLOATS,
    INTEGERS,
    LOWEST_SHIFT,
    Array,
    decompose8,
    float_operands,
)
from tpuc_bm1684x.lowerings.table import TABLE

_MOST_OFF = 0.5
"""Steps by which 8-bit slopes may move a stated value, which is rounded by another half."""

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
    """Positive values are rescaled by Sx / Sy, negative ones by 8-bit slopes times Sx / Sy with a common shift.
    In prequantized networks whose slopes need more bits, the op computes in f32.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        result = node.quantized_result_type()
        factor = node.operands[0].tensor.uniform.scale / result.uniform.scale
        multiplier, shift = decompose8(factor)
        stored, common = quantized_constant(slope * factor, LOWEST_SHIFT)
        if is_stated(node) and _farthest(slope * factor, stored / 2.0**common) > _MOST_OFF:
            return self._in_floats(slope, node, build)
        op = tpu.PReluOp(rshift=common, multiplier_pos=multiplier, rshift_pos=shift)
        dims = node.operand_types[0].dims
        row = stored.reshape(1, -1, *(1,) * (len(dims) - 2))
        return [build(op, [node.operands[0], build.weight("slope_i8", row, "si8")], result)]

    def _in_floats(self, slope: Array, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        """Real numbers in f32, which the framework rounds to the stated type."""
        real = node.operands[0].tensor.with_element(F32).at(None)
        x = build(tpu.Cast(with_scale=True), [node.operands[0]], real, f"{node.name}_real")
        slopes = build.weight("slope_f32", slope.astype(np.float32))
        return PReluFloat().lower(dataclasses.replace(node, mode="f32", operands=(x, slopes)), build)


def _farthest(factors: Array, stored: Array) -> float:
    """The largest error in steps of the result, of an operand whose result does not saturate."""
    reach = np.minimum(STEPS + 1, (STEPS + 1) / np.maximum(np.abs(factors), 1e-9))
    return float((np.abs(factors - stored) * reach).max(initial=0))


@TABLE.lowers(top.Relu, *ALL)
class ReluAny(Lowering[top.Relu]):
    """Clamps stored values; the result keeps the operand's type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor.at(None)
        return [build(tpu.Relu(relu_limit=node.op.relu_limit), node.operands, type_)]
