"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value
from tpuc_ops.elementwise import Function
from tpuc_ops.lowering import FunctionTable, quantised_constant, result_with_sign, slope_refusal, with_one_slope
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.clip import Clip as TpuClip
from tpuc_ops.tpu.leaky_relu import LeakyRelu as TpuLeakyRelu
from tpuc_ops.tpu.prelu import PRelu as TpuPRelu
from tpuc_ops.tpu.relu import Relu as TpuRelu

from tpuc_cv183x.kernels.powers import ActiveKernel
from tpuc_cv183x.lowerings.common import (
    LARGEST,
    bf16,
    bf16_operands,
    may_move_scale,
    short_factor,
    with_scale,
)
from tpuc_cv183x.lowerings.table import TABLE

_STEPS = 127

_TABLES: Sequence[type[Op]] = (
    *(AddConst, Clip, Function, LeakyRelu, MaxConst, MinConst, MulConst, Pow, Reciprocal, SubConst),
)


class FunctionBf16(Lowering[Function]):
    """By the mode of `tpu.Active`: tables of values and slopes. Both forms of GELU are one."""

    def serves(self, op: type[Op]) -> bool:
        return issubclass(op, Function) and op.active in ActiveKernel.kernels

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Function = node.op
        return [build(Active(mode=op.active, coeffs=op.coefficients()), node.operands, node.float_result_type())]


for _op in _TABLES:
    TABLE.lowers(_op, "int8")(FunctionTable)
TABLE.lowers(Function, "bf16")(FunctionBf16)


@TABLE.lowers(Clip, "bf16")
@TABLE.lowers(MaxConst, "bf16")
@TABLE.lowers(MinConst, "bf16")
class ClipBf16(Lowering[Any]):
    """Two bf16 bounds, of which one may be the end of the numbers."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Clip | MaxConst | MinConst = node.op
        low = op.min if isinstance(op, Clip) else op.const_val if isinstance(op, MaxConst) else -LARGEST
        high = op.max if isinstance(op, Clip) else op.const_val if isinstance(op, MinConst) else LARGEST
        return [build(TpuClip(min=bf16(low), max=bf16(high)), node.operands, node.float_result_type())]


@TABLE.lowers(LeakyRelu, "bf16")
class LeakyReluBf16(Lowering[LeakyRelu]):
    """The slope is an immediate."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(TpuLeakyRelu(alpha=bf16(node.op.alpha)), node.operands, node.float_result_type())]


@TABLE.lowers(PRelu, "bf16")
class PReluBf16(Lowering[PRelu]):
    """Slopes are bf16."""

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        if slope.size == 1:
            return [build(TpuLeakyRelu(alpha=bf16(float(slope.item()))), node.operands[:1], node.float_result_type())]
        return [build(TpuPRelu(), bf16_operands(node, build), node.float_result_type())]


@TABLE.lowers(PRelu, "int8")
class PReluInt8(Lowering[PRelu]):
    """One slope is a table. Several: Sx / Sy above 0, and 8-bit slopes times Sx / Sy with a common shift below; Sy is
    the nearest scale for which a byte says Sx / Sy exactly.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return slope_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None
        if slope.size == 1:
            return FunctionTable().lower(with_one_slope(node, float(slope.item())), build)
        result = result_with_sign(node, unsigned=False)
        if node.operands[0].tensor.storage.is_unsigned:
            return FunctionTable().lower(dataclasses.replace(node, op=LeakyRelu(alpha=1.0)), build)
        scale = node.operands[0].tensor.uniform.scale
        multiplier, shift = short_factor(scale / result.uniform.scale, _STEPS)
        if may_move_scale(node):
            result = with_scale(result, scale / math.ldexp(multiplier, -shift))
        stored, common = quantised_constant(slope * (scale / result.uniform.scale), lowest_shift=0)
        op = TpuPRelu(rshift=common, multiplier_pos=multiplier, rshift_pos=shift)
        dims = node.operand_types[0].dims
        row = stored.reshape(1, -1, *(1,) * (len(dims) - 2))
        return [build(op, [node.operands[0], build.weight("slope_i8", row, "si8")], result)]


@TABLE.lowers(Relu, "bf16", "int8")
class ReluAny(Lowering[Relu]):
    """A clamp of stored values; the result keeps the operand's type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(TpuRelu(relu_limit=node.op.relu_limit), node.operands, node.operands[0].tensor.at(None))]
