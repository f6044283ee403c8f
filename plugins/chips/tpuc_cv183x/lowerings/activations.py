"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Node, Op, TensorType, Value, numpy_dtype
from tpuc_ops.lowering import quantised_constant, result_with_sign, slope_refusal, with_one_slope
from tpuc_ops.quant.arithmetic import Rounding, dequantise, quantise_float
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.floor import Floor
from tpuc_ops.top.gelu import GELU
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.hard_swish import HardSwish
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.log import Log
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.mish import Mish
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.round import Round
from tpuc_ops.top.rsqrt import Rsqrt
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.clip import Clip as TpuClip
from tpuc_ops.tpu.leaky_relu import LeakyRelu as TpuLeakyRelu
from tpuc_ops.tpu.lut import Lut
from tpuc_ops.tpu.prelu import PRelu as TpuPRelu
from tpuc_ops.tpu.relu import Relu as TpuRelu

from tpuc_cv183x.lowerings.common import (
    LARGEST,
    bf16,
    bf16_operands,
    may_move_scale,
    scales_of,
    short_factor,
    with_scale,
)
from tpuc_cv183x.lowerings.table import TABLE

_STEPS = 127

_MODES: Mapping[type[Op], str] = {
    Abs: "ABSVAL",
    Elu: "ELU",
    Erf: "ERF",
    Exp: "EXP",
    GELU: "GELU",
    HardSigmoid: "HSIGMOID",
    HardSwish: "HSWISH",
    Log: "LN",
    Mish: "MISH",
    Rsqrt: "RSQRT",
    SiLU: "SILU",
    Sigmoid: "SIGMOID",
    Softplus: "SOFT_PLUS",
    Sqrt: "SQRT",
    Tanh: "TANH",
}
_TABLES: Sequence[type[Op]] = (
    *_MODES,
    AddConst,
    Ceil,
    Clip,
    Cos,
    Floor,
    LeakyRelu,
    MaxConst,
    MinConst,
    MulConst,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Softsign,
    SubConst,
)


def table_of(op: Op, source: TensorType, result: TensorType) -> np.ndarray[Any, np.dtype[Any]]:
    """What `op` makes of each of the 256 stored bytes of `source`, as `result` stores it; NaN counts as 0. A row for
    each channel where either side has scales per channel, else one.
    """
    stored = np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage))
    x = dequantise(stored, scales_of(source.element)[:, None], 0)
    plain = TensorType(x.shape, source.shape_only().storage)
    (y,) = op.evaluate(Node(op, (plain,), (plain,)), [x])
    y = np.where(np.isnan(y), 0, y)
    return quantise_float(
        y, scales_of(result.element)[:, None], 0, Rounding.HALF_AWAY_FROM_ZERO, numpy_dtype(result.storage)
    )


class LutInt8(Lowering[Any]):
    """One table, or one per channel: the exact function of every stored value, rounded half away from zero."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantised_result_type()
        table = table_of(node.op, node.operands[0].tensor, result)
        element = "ui8" if result.storage.is_unsigned else "si8"
        return [build(Lut(), [node.operands[0], build.weight("table", table.reshape(1, -1, 1, 256), element)], result)]


class ActiveBf16(Lowering[Any]):
    """By the mode of `tpu.Active`: tables of values and slopes."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Any = node.op
        coeffs: tuple[float, ...] | None = None
        match op:
            case HardSigmoid():
                coeffs = (op.alpha, op.beta)
            case Elu():
                coeffs = (op.alpha,)
            case _:
                pass
        return [build(Active(mode=_MODES[type(op)], coeffs=coeffs), node.operands, node.float_result_type())]


for _op in _TABLES:
    TABLE.lowers(_op, "int8")(LutInt8)
for _op in _MODES:
    if _op is not Sigmoid:
        TABLE.lowers(_op, "bf16")(ActiveBf16)


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
            return LutInt8().lower(with_one_slope(node, float(slope.item())), build)
        result = result_with_sign(node, unsigned=False)
        if node.operands[0].tensor.storage.is_unsigned:
            return LutInt8().lower(dataclasses.replace(node, op=LeakyRelu(alpha=1.0)), build)
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
