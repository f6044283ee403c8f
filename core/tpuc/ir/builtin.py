"""MLIR's own ops, available in every module: return and call."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.ir.attributes import Symbol
from tpuc.ir.op import Op
from tpuc.ir.traits import SideEffects


@dataclass(frozen=True)
class Return(Op, SideEffects):
    """The end of a function: its operands are the results."""

    name = "func.return"


@dataclass(frozen=True)
class Call(Op, SideEffects):
    """Run another function of the module."""

    name = "func.call"
    callee: Symbol
