"""Strided slice of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.shapes import slice_ranges, sliced
from tpuc_ops.traits import Rearranges, StridedView


@dataclass(frozen=True)
class Slice(Op, Rearranges, StridedView):
    """Select elements `offset`, ``offset + steps``, ... of every dimension. Further operands, if any, are ignored.

    `ends` is exclusive; without it, the declared result type gives the number of elements. Negative offsets and ends
    count from the end, ends beyond the tensor are clipped, and steps may be negative.
    """

    name = "top.Slice"
    slots = listed(4, kept=1)
    offset: I64Array
    steps: I64Array
    ends: I64Array | None = None
    axes: I64Array = ()

    def infer(self, operands: Types) -> Types | None:
        x = operands[0]
        if self.axes:
            raise ValueError("axes are not supported; state offset, steps and ends of every dimension")
        if len(self.offset) != x.rank or len(self.steps) != x.rank or 0 in self.steps:
            raise ValueError(
                f"{x.rank} offsets and steps other than 0 are needed, these are {self.offset}, {self.steps}"
            )
        if self.ends is None:
            return None
        return (x.shape_only().with_shape(sliced(x.dims, self.offset, self.ends, self.steps)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0]
        return [x[slice_ranges(x.shape, self.offset, self.steps, node.result_type.dims)]]
