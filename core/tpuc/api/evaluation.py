"""The interpreter and array helpers for plugins that evaluate modules. Imports numpy."""

from __future__ import annotations

from tpuc.interpreter import ABSENT_SLOT as ABSENT_SLOT
from tpuc.interpreter import Interpreter as Interpreter
from tpuc.interpreter import Plan as Plan
from tpuc.interpreter import Step as Step
from tpuc.interpreter import make_plan as make_plan
from tpuc.interpreter.stateful import StatefulInterpreter as StatefulInterpreter
from tpuc.interpreter.values import Array as Array
from tpuc.interpreter.values import real_values as real_values
from tpuc.interpreter.values import types_of as types_of
from tpuc.ir.channel_factors import state_factors as state_factors
from tpuc.ir.channel_factors import stated_factors as stated_factors
from tpuc.npz import read_npz as read_npz
from tpuc.npz import write_npz as write_npz
