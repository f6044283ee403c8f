"""Strided slice of stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.shapes import slice_ranges, sliced
from tpuc_ops.traits import StridedView


@dataclass(frozen=True)
class Slice(Op, StridedView):
    """As `top.Slice`, on stored elements; without `ends`, the declared result type decides."""

    name = "tpu.Slice"
    slots = listed(5, kept=1)
    offset: I64Array
    steps: I64Array
    ends: I64Array | None = None
    axes: I64Array = ()
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        x = operands[0]
        if self.axes:
            raise ValueError("axes are not supported; state offset, steps and ends of every dimension")
        if self.ends is None:
            return None
        return (x.with_shape(sliced(x.dims, self.offset, self.ends, self.steps)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0]
        return [x[slice_ranges(x.shape, self.offset, self.steps, node.result_type.dims)]]
