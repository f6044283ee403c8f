"""Count the arithmetic operations of one run."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import IntegerAttr, Module, Pass, PassContext

ATTRIBUTE = "module.FLOPs"


@dataclass(frozen=True)
class CountFlops(Pass):
    """Set `module.FLOPs` to the sum over all operations."""

    name = "count-flops"

    def run(self, module: Module, context: PassContext) -> bool:
        total = IntegerAttr(sum(operation.op.flops(operation.node()) for operation in module.walk()))
        changed = module.attributes.get(ATTRIBUTE) != total
        module.attributes[ATTRIBUTE] = total
        return changed
