"""The interpreter and array helpers for plugins that evaluate modules. Imports numpy."""

from __future__ import annotations

from tpuc.interpreter import ABSENT_SLOT, Interpreter, Plan, Step, make_plan
from tpuc.interpreter.stateful import StatefulInterpreter
from tpuc.interpreter.values import Array, real_values, types_of
from tpuc.ir.channel_factors import state_factors, stated_factors
from tpuc.npz import read_npz, write_npz

__all__ = [
    "ABSENT_SLOT",
    "Array",
    "Interpreter",
    "Plan",
    "StatefulInterpreter",
    "Step",
    "make_plan",
    "read_npz",
    "real_values",
    "state_factors",
    "stated_factors",
    "types_of",
    "write_npz",
]
