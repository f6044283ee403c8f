"""Raise constants that keep divisors and logarithms above 0 where a chip cannot compute with such small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from tpuc.api import ChipDescription, Location, Module, Operation, free_name
from tpuc.api.evaluation import Array
from tpuc_ops import top
from tpuc_optimize.canonicalization.common import insert_before

_NUMBERS = ("const_val", "x_const_val", "y_const_val", "min")
_DIVIDES = (top.Div, top.Reciprocal, top.Rsqrt, top.Pow)
"""Ops that end the divisors of this grammar: a quotient, or a negative power."""
_NORMAL = 2.0**-126
"""The smallest number that is not denormal in the widest float type of chips that have a smallest divisor."""


def epsilons_of(module: Module, operation: Operation) -> Array:
    """Constants that are added, are lower bounds, or replace values that vanish."""
    op = operation.op
    if isinstance(op, (top.AddConst, top.MaxConst)):
        return np.array([op.const_val])
    if isinstance(op, top.SubConst) and not op.is_reverse:
        return np.array([-op.const_val])
    if isinstance(op, top.Clip):
        return np.array([op.min])
    if isinstance(op, top.Where) and (op.x_is_const or op.y_is_const):
        return np.array([min([op.x_const_val] * op.x_is_const + [op.y_const_val] * op.y_is_const)])
    if isinstance(op, (top.Add, top.Max, top.Where)):
        arrays = [module.constant(operand) for operand in operation.operands]
        found = [array.reshape(-1) for array in arrays if array is not None and array.dtype.kind == "f"]
        return np.concatenate([np.zeros(0), *found])
    return np.zeros(0)


def raise_numbers(module: Module, operation: Operation, least: float) -> bool:
    """Raise positive constants of an op, its own and its operands', to at least this value; returns True if one
    changed.
    """
    changed = False
    op: Any = operation.op
    numbers = {one.name: float(getattr(op, one.name)) for one in fields(op) if one.name in _NUMBERS}
    below = {name: least for name, number in numbers.items() if 0 < number < least}
    if below:
        operation.op, changed = replace(op, **below), True
    for index, operand in enumerate(operation.operands):
        array = module.constant(operand)
        if array is None or array.dtype != np.float32 or not ((array > 0) & (array < least)).any():
            continue
        taken = {value.name for one in module.walk() for value in one.results} | set(module.weights.names())
        name = free_name(f"{operand.name}_raised", taken.__contains__)
        module.weights[name] = np.where((array > 0) & (array < least), np.float32(least), array)
        weight = Operation(top.Weight(), (), [operand.tensor], Location((name,)))
        operation.set_operand(index, insert_before(operation, weight))
        changed = True
    return changed


def raised_remark(chip: ChipDescription, raised: Sequence[float]) -> str:
    """What to tell the user about raised constants."""
    what = "1 constant that keeps" if len(raised) == 1 else f"{len(raised)} constants that keep"
    verb, most = "becomes" if len(raised) == 1 else "become up to", max(raised)
    limits = f"{chip.name} cannot divide by less than {chip.least_divisor:.3g} or hold less than {_NORMAL:.3g}"
    return f"{limits}: {what} divisors or logarithms above 0 {verb} {most:.3g}"


def least_number(behind: Sequence[Operation], powers: Sequence[float], least_divisor: float) -> float:
    """The smallest constant that the chip computes with: its powers are divisors, or it is a normal number."""
    if not (behind and least_divisor):
        return 0.0
    normal = _NORMAL * (2 if any(isinstance(one.op, _DIVIDES) for one in behind) else 1)
    return max([normal, *(float(least_divisor ** (1 / power)) for power in powers)])
