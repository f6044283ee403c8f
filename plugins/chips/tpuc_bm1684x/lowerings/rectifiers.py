"""Relu, leaky relu and PRelu."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Node, TensorType, Uniform, Value
from tpuc_chip_parts.lowering import STEPS, FunctionTable, is_stated, quantized_constant, slope_refusal, table_of
from tpuc_chip_parts.numbers import LeakyReluFloat
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import (
    ALL,
    FLOATS,
    INTEGERS,
    LARGEST_FACTOR16,
    LOWEST_SHIFT,
    Array,
    decompose8,
    decompose16,
    float_operands,
    has_zero_points,
)
from tpuc_bm1684x.lowerings.table import TABLE

_MOST_OFF = 0.5
"""Steps by which 8-bit slopes may move a stated value, which is rounded by another half."""
_HALFWAY = 1e-4
"""Distance from half a step below which float32 decides how a table rounds: 128 steps by three roundings are 2e-5."""

TABLE.lowers(top.LeakyRelu, *FLOATS)(LeakyReluFloat)


@TABLE.lowers(top.LeakyRelu, *INTEGERS)
class LeakyReluInt8(FunctionTable):
    """Products by 16-bit multipliers where they give every entry of the table, which is looked up otherwise: a lane
    looks up one element a cycle, and multiplies 64. Entries halfway between two integers, which the table rounds by
    what float32 makes of them, count only in prequantized networks.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        source, result = node.operands[0].tensor, node.quantized_result_type()
        op = None if has_zero_points(source, result) else _products(node, source, result)
        return super().lower(node, build) if op is None else [build(op, [node.operands[0]], result)]


def _products(node: LoweringNode, source: TensorType, result: TensorType) -> tpu.LeakyRelu | None:
    """The op that rounds as the table; None if there is none."""
    if not (isinstance(source.element, Uniform) and isinstance(result.element, Uniform)):
        return None
    if source.storage.is_unsigned or result.storage.is_unsigned:
        return None
    factor = source.uniform.scale / result.uniform.scale
    slope = node.op.alpha * factor
    if not 0 < max(factor, abs(slope)) <= LARGEST_FACTOR16 or slope == 0:
        return None
    (above, shift), (below, other) = decompose16(factor), decompose16(slope)
    op = tpu.LeakyRelu(
        multiplier=None if factor == 1 else above,
        rshift=None if factor == 1 else shift,
        multiplier_neg=below,
        rshift_neg=other,
        round_mode="HalfAwayFromZero",
    )
    every = np.arange(-128, 128)
    row = (source.with_shape((256,)).at(None), result.with_shape((256,)).at(None))
    (found,) = op.evaluate(Node(op, row[:1], row[1:]), [every.astype(np.int8)])
    real = np.where(every > 0, factor, slope) * every
    is_half = np.abs(np.abs(real - np.floor(real)) - 0.5) < _HALFWAY
    differs = found != table_of(node.op, source, result).reshape(-1)[every & 255]
    return None if differs[~is_half].any() or (is_stated(node) and differs.any()) else op


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
