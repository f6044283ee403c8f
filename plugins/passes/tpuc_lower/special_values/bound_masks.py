"""Limit the values of masks to what chips without infinity can add up."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from tpuc.api import Location, Module, Op, Operation, Pass, PassContext, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_optimize.canonicalization.common import Names, insert_before
from tpuc_optimize.canonicalization.masks import mask_inputs, masked_scores

from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import MODE

BOUND = 2.0**100
"""Far beyond all scores, and 2**27 times below the largest bf16: masks are added up and scaled."""
_NUMBERS = ("const_val", "x_const_val", "y_const_val", "val", "min", "max")


@dataclass(frozen=True)
class BoundMasks(Pass):
    """On a chip without infinity, where the sum of two lowest numbers wraps to the largest, limit masking values to
    `BOUND`: constants, attributes of ops, and mask inputs, which are followed by a Clip. Infinity counts as a
    masking value.
    """

    name = "bound-masks"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        if chip_of(context, self.name).description.has_infinity or context.find(MODE, ""):
            return False
        found, names = masked_scores(module), Names(module)
        changed = [_bound(module, one, names) for one in module.main.operations[:-1] if one in found]
        for value in mask_inputs(module):
            uses, where = list(value.uses), Location((names.new(f"{value.name}_bounded"),))
            first = next(one for one in module.main.operations if value in one.operands)
            clip = Operation(top.Clip(min=-BOUND, max=BOUND), [value], [value.tensor], where)
            insert_before(first, clip)
            for user, index in uses:
                user.set_operand(index, clip.result)
            changed.append(True)
        return any(changed)


def _bound(module: Module, operation: Operation, names: Names) -> bool:
    op = _bounded(operation.op)
    changed = op is not operation.op
    operation.op = op
    for index, operand in enumerate(operation.operands):
        constant = _constant(module, operand)
        if constant is not None and (np.abs(constant) > BOUND).any():
            name = names.new(f"{operand.name}_bounded")
            module.weights[name] = np.clip(constant, -BOUND, BOUND)
            weight = Operation(top.Weight(), (), [operand.tensor], Location((name,)))
            operation.set_operand(index, insert_before(operation, weight))
            changed = True
    return changed


def _bounded(op: Any) -> Op:
    numbers = {one.name: getattr(op, one.name) for one in fields(op) if one.name in _NUMBERS}
    beyond = {name: float(np.clip(one, -BOUND, BOUND)) for name, one in numbers.items() if abs(one) > BOUND}
    return replace(op, **beyond) if beyond else op


def _constant(module: Module, value: Value) -> Array | None:
    array = module.constant(value)
    return np.asarray(array) if array is not None and np.asarray(array).dtype == np.float32 else None
