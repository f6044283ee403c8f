"""Functions of one tensor: 256-entry tables for integers, the chip's float arithmetic for floats."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Op
from tpuc_chip_parts import lowering
from tpuc_chip_parts.lowering import FunctionTable
from tpuc_chip_parts.numbers import ClipFloat
from tpuc_ops import top
from tpuc_ops.elementwise import Function

from tpuc_bm1684x.kernels.active import MODES
from tpuc_bm1684x.lowerings.common import FLOATS, INTEGERS
from tpuc_bm1684x.lowerings.table import TABLE

_TABLES: Sequence[type[Op]] = (
    Function,
    top.Clip,
    top.MaxConst,
    top.MinConst,
    top.Pow,
    top.Pow2,
    top.Reciprocal,
)


@TABLE.lowers(Function, *FLOATS)
class FunctionFloat(lowering.FunctionFloat):
    """Computes functions in the chip's float arithmetic."""

    modes = MODES


for _op in _TABLES:
    TABLE.lowers(_op, *INTEGERS)(FunctionTable)
for _op in (top.Clip, top.MaxConst, top.MinConst):
    TABLE.lowers(_op, *FLOATS)(ClipFloat)
