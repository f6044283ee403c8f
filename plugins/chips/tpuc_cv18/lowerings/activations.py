"""Functions of one tensor: 256-entry tables for integers, chip arithmetic for floats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value
from tpuc_chip_parts.lowering import (
    FunctionFloat,
    FunctionTable,
    PowFloat,
    is_stated,
    quantized_constant,
    result_with_sign,
    slope_refusal,
    table_of,
)
from tpuc_chip_parts.numbers import ClipFloat, LeakyReluFloat
from tpuc_ops import top, tpu
from tpuc_ops.elementwise import Function
from tpuc_ops.integers import zero_point

from tpuc_cv18.kernels.powers import ActiveKernel
from tpuc_cv18.lowerings.affine import MOST_CHANNELS, over_channels, split_by_constant
from tpuc_cv18.lowerings.common import (
    Array,
    bf16_operands,
    may_move_scale,
    short_factor,
    with_scale,
)
from tpuc_cv18.lowerings.table import TABLE

_STEPS = 127

_TABLES: Sequence[type[Op]] = (
    *(
        top.AddConst,
        top.Clip,
        Function,
        top.LeakyRelu,
        top.MaxConst,
        top.MinConst,
        top.MulConst,
        top.Pow,
        top.Reciprocal,
        top.SubConst,
    ),
)


@TABLE.lowers(Function, "bf16")
class FunctionBf16(FunctionFloat):
    """Functions from tables of values and slopes. Both variants of GELU use the same table."""

    modes = ActiveKernel.kernels

    def mode(self, op: Function) -> str:
        return op.active if isinstance(op, top.GELU) else op.active_mode()


TABLE.lowers(top.Pow, "bf16")(PowFloat)
for _op in _TABLES:
    TABLE.lowers(_op, "int8")(FunctionTable)
for _op in (top.Clip, top.MaxConst, top.MinConst):
    TABLE.lowers(_op, "bf16")(ClipFloat)
TABLE.lowers(top.LeakyRelu, "bf16")(LeakyReluFloat)


@TABLE.lowers(top.PRelu, "bf16")
class PReluBf16(Lowering[top.PRelu]):
    """PRelu with bf16 slopes."""

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        return [build(tpu.PReluOp(), bf16_operands(node, build), node.float_result_type())]


@TABLE.lowers(top.PRelu, "int8")
class PReluInt8(Lowering[top.PRelu]):
    """Positive values are rescaled by Sx / Sy, negative ones by 8-bit slopes times Sx / Sy with a common shift. Sy
    moves to the nearest scale for which an 8-bit multiplier represents Sx / Sy exactly. Prequantized networks use a
    table for each slope: the dimensions that the slopes span become channels.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node)

    def refuse(self, node: LoweringNode) -> str | None:
        slope = node.constants[1]
        refusal = slope_refusal(node)
        if refusal is None or slope is None or not is_stated(node):
            return refusal
        _, slopes, _ = split_by_constant(slope.shape, node.operand_types[0].dims)
        return None if slopes <= MOST_CHANNELS else refusal

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        if is_stated(node) or zero_point(node.operands[0].tensor):
            return [self._table(slope, node, build)]
        result = result_with_sign(node, unsigned=False)
        if node.operands[0].tensor.storage.is_unsigned:
            return FunctionTable().lower(dataclasses.replace(node, op=top.LeakyRelu(alpha=1.0)), build)
        scale = node.operands[0].tensor.uniform.scale
        multiplier, shift = short_factor(scale / result.uniform.scale, _STEPS)
        if may_move_scale(node):
            result = with_scale(result, scale / math.ldexp(multiplier, -shift))
        stored, common = quantized_constant(slope * (scale / result.uniform.scale), lowest_shift=0)
        op = tpu.PReluOp(rshift=common, multiplier_pos=multiplier, rshift_pos=shift)
        dims = node.operand_types[0].dims
        row = stored.reshape(1, -1, *(1,) * (len(dims) - 2))
        return [build(op, [node.operands[0], build.weight("slope_i8", row, "si8")], result)]

    def _table(self, slope: Array, node: LoweringNode, build: LoweringBuilder) -> Value:
        """A table for each slope with the result of each byte."""
        value, result = node.operands[0], node.quantized_result_type()
        dims, plain = result.dims, value.tensor.at(None)
        slopes = over_channels(slope, slope.shape, dims)
        rows = [table_of(top.LeakyRelu(alpha=float(one)), plain, result) for one in slopes]
        element = "ui8" if result.storage.is_unsigned else "si8"
        table = build.weight("table", np.stack(rows).reshape(1, -1, 1, 256), element)
        images, channels, size = split_by_constant(slope.shape, dims)
        if channels == 1 or dims[:2] == (images, channels):
            return build(tpu.Lut(), [value, table], result)
        image = (images, channels, size, 1)
        moved = build(tpu.Reshape(shape=image), [value], plain.with_shape(image), f"{node.name}_image")
        looked_up = build(tpu.Lut(), [moved, table], result.with_shape(image), f"{node.name}_looked_up")
        return build(tpu.Reshape(shape=dims), [looked_up], result)


@TABLE.lowers(top.Relu, "bf16", "int8")
class ReluAny(Lowering[top.Relu]):
    """Clamps stored values; the result keeps the operand's type. Uses a table where a prequantized network specifies
    another type.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        source = node.operands[0].tensor
        if source.is_quantized and (is_stated(node) or zero_point(source)):
            return FunctionTable().lower(node, build)
        return [build(tpu.Relu(relu_limit=node.op.relu_limit), node.operands, node.operands[0].tensor.at(None))]
