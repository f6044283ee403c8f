"""Keep dynamically quantized activations in floats on chips that do not compute their integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    Builder,
    Location,
    Module,
    Operation,
    Pass,
    PassContext,
    free_name,
    remove_dead,
    remove_unused,
)
from tpuc_ops import top
from tpuc_optimize.fold_constants import FoldConstants

from tpuc_prequantized.integer_weights import make_integer_weights
from tpuc_prequantized.scaled_back import is_scaled_back

EXACT_MODE = "f32"
"""The mode in which sums of products of bytes are exact."""


@dataclass(frozen=True)
class DropDynamicQuantization(Pass):
    """In modes other than f32, DynamicQuantizeLinear becomes its operand, with scale 1, where products of its integers
    are scaled back: the network then has the same meaning without the rounding.

    Sums of integers do not fit 16 bits, calibrated ranges round by themselves, and where results have eight significant
    bits, another rounding to 255 steps loses predictions. Filters become integer-valued where factors can move.
    """

    name = "drop-dynamic-quantization"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        requested = str(context.options.get("quantize") or "")
        mode = requested or (context.chip.description.float_mode if context.chip is not None else None)
        if mode == EXACT_MODE:
            return False
        count = drop_dynamic_quantization(module, context)
        if not count:
            return False
        kept = "dynamically quantized tensor stays" if count == 1 else "dynamically quantized tensors stay"
        context.remark(f"{module.name}: {count} {kept} in float in mode '{mode}'")
        if mode == "bf16":
            make_integer_weights(module)
        return True


def drop_dynamic_quantization(module: Module, context: PassContext) -> int:
    """Change the module; returns the number of changed tensors."""
    if not _quantizes_dynamically(module):
        return 0
    remove_dead(module)
    found = [operation for operation in module.main.operations if is_scaled_back(operation, module)]
    names = {value.name for operation in module.walk() for value in operation.results}
    for operation in found:
        _drop(module, operation, names)
    if found:
        from tpuc_optimize.canonicalize import Canonicalize  # calibration of other networks starts sooner without

        for one in (FoldConstants(), Canonicalize()):
            one.run(module, context)
        remove_unused(module)
    return len(found)


def _quantizes_dynamically(module: Module) -> bool:
    return any(isinstance(operation.op, top.DynamicQuantizeLinear) for operation in module.main.operations)


def _drop(module: Module, operation: Operation, names: set[str]) -> None:
    """Rename products of floats, since their values change."""
    integers, scale, _ = operation.results
    for user in integers.users:
        name = free_name(f"{user.name}_float", names.__contains__)
        names.add(name)
        user.location = Location((name,))
    build = Builder(module, before=operation, constant=top.Weight())
    integers.replace_with(operation.operands[0])
    one = np.ones(scale.tensor.dims, np.float32)
    scale.replace_with(build.weight(free_name(f"{scale.name}_one", names.__contains__), one))
    operation.erase()
