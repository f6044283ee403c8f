"""Removes what nobody uses: dead operations, and weights that no operation names."""

from __future__ import annotations

from tpuc.api import Constant, Module, NetworkInput, SideEffects


def remove_dead(module: Module) -> bool:
    """Erase operations without used results (network inputs stay), last first, and forget unused weights."""
    changed = False
    for function in module.functions:
        dead: set[int] = set()
        for operation in reversed(function.operations):
            if not operation.results or isinstance(operation.op, (SideEffects, NetworkInput)):
                continue
            if any(result.uses for result in operation.results):
                continue
            operation.set_operands(())
            operation.block = None
            dead.add(id(operation))
        if dead:
            changed = True
            function.body.operations[:] = [o for o in function.operations if id(o) not in dead]
    names = {operation.name for operation in module.walk() if isinstance(operation.op, Constant)}
    if len(names) < len(module.weights):
        module.weights.keep_only(names)
    return changed
