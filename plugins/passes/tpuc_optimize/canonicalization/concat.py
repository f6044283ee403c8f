"""Move concatenations to where they cost least."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names, sole_producer


@dataclass(frozen=True)
class PermuteBeforeConcat(Pattern):
    """Move a permutation that makes the axis of a concatenation an outer one before it, part by part.

    Contiguous parts need no copy, so that only the permutation moves data.
    """

    names: Names
    matches = (top.Permute,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        concat = sole_producer(operation)
        if concat is None or not isinstance(concat.op, top.Concat) or concat.op.do_relu:
            return False
        op: Any = operation.op
        axis = concat.op.axis % concat.result.tensor.rank
        order: tuple[int, ...] = op.order
        position = order.index(axis)
        dims = operation.result.tensor.dims
        if axis == 0 or any(extent > 1 for extent in dims[:position]) or position >= axis:
            return False
        rewriter.at(operation)
        parts = [
            rewriter.build(
                op,
                [part],
                part.tensor.with_shape(tuple(part.tensor.dims[index] for index in order)),
                self.names.new(f"{part.name}_permuted"),
            )
            for part in concat.operands
        ]
        joined = dataclasses.replace(concat.op, axis=position)
        rewriter.replace(operation, rewriter.build(joined, parts, operation.result.type, operation.name))
        return True
