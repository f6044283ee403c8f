"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value
from tpuc_ops.elementwise import Function
from tpuc_ops.lowering import FunctionTable
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.pow2 import Pow2
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.clip import Clip as TpuClip

from tpuc_bm1684x.kernels.active import MODES
from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST = float(np.finfo(np.float32).max)

_TABLES: Sequence[type[Op]] = (Function, Clip, LeakyRelu, MaxConst, MinConst, Pow, Pow2, Reciprocal)


class FunctionFloat(Lowering[Function]):
    """The chip's float arithmetic, by the mode of `tpu.Active`."""

    def serves(self, op: type[Op]) -> bool:
        return issubclass(op, Function) and op.active in MODES

    def refuse(self, node: LoweringNode) -> str | None:
        op: Function = node.op
        if isinstance(op, Sigmoid) and (op.scale, op.bias) != (1.0, 0.0):
            return "a sigmoid with scale 1 and bias 0"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Function = node.op
        active = Active(mode=op.active_mode(), coeffs=op.coefficients())
        return [build(active, node.operands, node.float_result_type())]


for _op in _TABLES:
    TABLE.lowers(_op, *INTEGERS)(FunctionTable)
TABLE.lowers(Function, *FLOATS)(FunctionFloat)


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
