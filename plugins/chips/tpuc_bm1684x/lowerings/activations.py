"""Functions of one tensor: tables of 256 entries for integers, the chip's own arithmetic for floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value
from tpuc_chip_parts import lowering
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


@TABLE.lowers(Function, *FLOATS)
class FunctionFloat(lowering.FunctionFloat):
    """The chip's float arithmetic."""

    modes = MODES


for _op in _TABLES:
    TABLE.lowers(_op, *INTEGERS)(FunctionTable)


@TABLE.lowers(top.Clip, *FLOATS)
@TABLE.lowers(top.MaxConst, *FLOATS)
@TABLE.lowers(top.MinConst, *FLOATS)
class ClipFloat(Lowering[Any]):
    """Two bounds, of which one may be the end of the f32 numbers."""

    def lower(
        self, node: LoweringNode[top.Clip | top.MaxConst | top.MinConst], build: LoweringBuilder
    ) -> Sequence[Value]:
        op = node.op
        low = op.min if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MaxConst) else -_LARGEST
        high = op.max if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MinConst) else _LARGEST
        return [build(tpu.Clip(min=low, max=high), node.operands, node.float_result_type())]
