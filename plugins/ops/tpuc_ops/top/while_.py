"""A loop with a data-dependent end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, Operation, StructuredOp, Types, Value

from tpuc_ops.arrays import Array
from tpuc_ops.regions import run_block

MOST_STEPS = 1 << 16
"""A loop with more steps is considered infinite."""


@dataclass(frozen=True)
class While(StructuredOp):
    """Run the second region as long as the first one yields a nonzero value.

    Both regions take the carried values, initially the operands; the second one yields those of the next step. Chips
    have no loops: the op is evaluated on the host, and `tpuc check` reports it.
    """

    name = "top.While"

    def infer(self, operands: Types) -> Types:
        return tuple(operand.shape_only() for operand in operands)

    def run(self, operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
        condition, body = (region.blocks[0] for region in operation.regions)
        carried: Sequence[Array] = [values[value] for value in operation.operands]
        for _ in range(MOST_STEPS):
            asked = {**values, **dict(zip(condition.arguments, carried, strict=True))}
            if not np.any(run_block(condition, asked, module)[0]):
                return carried
            carried = run_block(body, {**values, **dict(zip(body.arguments, carried, strict=True))}, module)
        raise ValueError(f"its loop runs more than {MOST_STEPS} steps")

    def verify(self, operation: Operation) -> None:
        """Check for two regions of one block each that end in a yield: of one value, and of the carried values."""
        blocks = [block for region in operation.regions for block in region.blocks]
        if len(operation.regions) != 2 or len(blocks) != 2:
            raise ValueError("it needs two regions of one block each")
        counts = [len(block.arguments) for block in blocks]
        if counts != [len(operation.operands)] * 2 or not all(block.operations for block in blocks):
            raise ValueError("its regions must take as many values as the loop carries")
        yielded = [len(block.operations[-1].operands) for block in blocks]
        if yielded != [1, len(operation.operands)]:
            raise ValueError("its first region must yield one value, its second as many as the loop carries")
