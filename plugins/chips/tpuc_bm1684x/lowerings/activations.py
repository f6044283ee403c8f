"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value
from tpuc_chip_parts.lowering import FunctionTable
from tpuc_ops import top, tpu
from tpuc_ops.elementwise import Function

from tpuc_bm1684x.kernels.active import MODES
from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST = float(np.finfo(np.float32).max)

_TABLES: Sequence[type[Op]] = (
    Function,
    top.Clip,
    top.LeakyRelu,
    top.MaxConst,
    top.MinConst,
    top.Pow,
    top.Pow2,
    top.Reciprocal,
)


class FunctionFloat(Lowering[Function]):
    """The chip's float arithmetic, by the mode of `tpu.Active`."""

    def serves(self, op: type[Op]) -> bool:
        return issubclass(op, Function) and op.active in MODES

    def refuse(self, node: LoweringNode) -> str | None:
        op: Function = node.op
        if isinstance(op, top.Sigmoid) and (op.scale, op.bias) != (1.0, 0.0):
            return "a sigmoid with scale 1 and bias 0"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Function = node.op
        active = tpu.Active(mode=op.active_mode(), coeffs=op.coefficients())
        return [build(active, node.operands, node.float_result_type())]


for _op in _TABLES:
    TABLE.lowers(_op, *INTEGERS)(FunctionTable)
TABLE.lowers(Function, *FLOATS)(FunctionFloat)


@TABLE.lowers(top.Clip, *FLOATS)
@TABLE.lowers(top.MaxConst, *FLOATS)
@TABLE.lowers(top.MinConst, *FLOATS)
class ClipFloat(Lowering[Any]):
    """Two bounds, of which one may be the end of the f32 numbers."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Clip | top.MaxConst | top.MinConst = node.op
        low = op.min if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MaxConst) else -_LARGEST
        high = op.max if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MinConst) else _LARGEST
        return [build(tpu.Clip(min=low, max=high), node.operands, node.float_result_type())]
