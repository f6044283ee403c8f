"""Run modules on the host, op by op, through each op's `evaluate`."""

from __future__ import annotations

from tpuc.interpreter.interpreter import EvaluationError, InputError, Interpreter
from tpuc.interpreter.plan import ABSENT_SLOT, Plan, Step, make_plan

__all__ = ["ABSENT_SLOT", "EvaluationError", "InputError", "Interpreter", "Plan", "Step", "make_plan"]
