"""Running modules on the host, op by op, through the meaning that each op gives itself."""

from __future__ import annotations

from tpuc.interpreter.interpreter import EvaluationError, InputError, Interpreter
from tpuc.interpreter.plan import Plan, Step, make_plan

__all__ = ["EvaluationError", "InputError", "Interpreter", "Plan", "Step", "make_plan"]
