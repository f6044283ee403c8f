"""Raise constants that keep divisors and logarithms above 0 where a chip cannot compute with such small ones."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from tpuc.api import Location, Module, Operation, free_name
from tpuc.api.evaluation import Array
from tpuc_ops import top
from tpuc_optimize.canonicalization.common import insert_before

_NUMBERS = ("const_val", "x_const_val", "y_const_val", "min")


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
