"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Node, Op, TensorType, UniformPerAxis, Value, numpy_dtype
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import Rounding, dequantise, quantise_float
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.arccos import Arccos
from tpuc_ops.top.arccosh import Arccosh
from tpuc_ops.top.arcsin import Arcsin
from tpuc_ops.top.arcsinh import Arcsinh
from tpuc_ops.top.arctan import Arctan
from tpuc_ops.top.arctanh import Arctanh
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.cosh import Cosh
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
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.pow2 import Pow2
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.round import Round
from tpuc_ops.top.rsqrt import Rsqrt
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.sinh import Sinh
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.tan import Tan
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.clip import Clip as TpuClip
from tpuc_ops.tpu.lut import Lut

from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST = float(np.finfo(np.float32).max)

_MODES: Mapping[type[Op], str] = {
    Abs: "ABSVAL",
    Arccos: "ARCCOS",
    Arccosh: "ARCCOSH",
    Arcsin: "ARCSIN",
    Arcsinh: "ARCSINH",
    Arctan: "ARCTAN",
    Arctanh: "ARCTANH",
    Ceil: "CEIL",
    Cos: "COS",
    Cosh: "COSH",
    Elu: "ELU",
    Erf: "ERF",
    Exp: "EXP",
    Floor: "FLOOR",
    GELU: "GELU",
    HardSigmoid: "HSIGMOID",
    HardSwish: "HSWISH",
    Log: "LN",
    Mish: "MISH",
    Round: "ROUND",
    Rsqrt: "RSQRT",
    SiLU: "SILU",
    Sigmoid: "SIGMOID",
    Sign: "SIGN",
    Sin: "SIN",
    Sinh: "SINH",
    Softplus: "SOFT_PLUS",
    Softsign: "SOFT_SIGN",
    Sqrt: "SQRT",
    Tan: "TAN",
    Tanh: "TANH",
}
_TABLES: Sequence[type[Op]] = (
    *_MODES,
    Clip,
    LeakyRelu,
    MaxConst,
    MinConst,
    Pow,
    Pow2,
    Reciprocal,
)


def table_of(op: Op, source: TensorType, result: TensorType) -> np.ndarray[Any, np.dtype[Any]]:
    """What `op` makes of each of the 256 stored bytes of `source`, as `result` stores it; NaN counts as 0. A row for
    each channel when either side has scales per channel.
    """
    stored = np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage))
    (scale, point), (result_scale, result_point) = (_by_rows(one) for one in (source, result))
    x = dequantise(stored, scale, point)
    plain = TensorType(x.shape, source.shape_only().storage)
    (y,) = op.evaluate(Node(op, (plain,), (plain,)), [x])
    y = np.where(np.isnan(y), 0, y)
    return quantise_float(y, result_scale, result_point, Rounding.HALF_AWAY_FROM_ZERO, numpy_dtype(result.storage))


def _by_rows(type: TensorType) -> tuple[Any, Any]:
    """Scale and zero point, as columns when there are several."""
    if isinstance(type.element, UniformPerAxis):
        return np.reshape(type.element.scales, (-1, 1)), np.reshape(type.element.zero_points, (-1, 1))
    return type.uniform.scale, zero_point(type)


class LutInt8(Lowering[Any]):
    """One table: the exact function of every stored value, rounded half away from zero."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantised_result_type()
        table = table_of(node.op, node.operands[0].tensor, result)
        element = "ui8" if result.storage.is_unsigned else "si8"
        rows = table.reshape(1, -1, 1, 256)
        return [build(Lut(), [node.operands[0], build.weight("table", rows, element)], result)]


class ActiveFloat(Lowering[Any]):
    """The chip's float arithmetic, by the mode of `tpu.Active`."""

    def refuse(self, node: LoweringNode) -> str | None:
        op: Any = node.op
        if isinstance(op, Sigmoid) and (op.scale, op.bias) != (1.0, 0.0):
            return "a sigmoid with scale 1 and bias 0"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Any = node.op
        mode = _MODES[type(op)]
        coeffs: tuple[float, ...] | None = None
        match op:
            case GELU(approx_mode="tanh"):
                mode = "TGELU"
            case Sigmoid(log=True):
                mode = "LOG_SIGMOID"
            case HardSigmoid():
                coeffs = (op.alpha, op.beta)
            case Elu():
                coeffs = (op.alpha,)
            case _:
                pass
        return [build(Active(mode=mode, coeffs=coeffs), node.operands, node.float_result_type())]


for _op in _TABLES:
    TABLE.lowers(_op, *INTEGERS)(LutInt8)
for _op in _MODES:
    TABLE.lowers(_op, *FLOATS)(ActiveFloat)


@TABLE.lowers(Clip, *FLOATS)
@TABLE.lowers(MaxConst, *FLOATS)
@TABLE.lowers(MinConst, *FLOATS)
class ClipFloat(Lowering[Any]):
    """Two bounds, of which one may be the end of the f32 numbers."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Clip | MaxConst | MinConst = node.op
        low = op.min if isinstance(op, Clip) else op.const_val if isinstance(op, MaxConst) else -_LARGEST
        high = op.max if isinstance(op, Clip) else op.const_val if isinstance(op, MinConst) else _LARGEST
        return [build(TpuClip(min=low, max=high), node.operands, node.float_result_type())]
