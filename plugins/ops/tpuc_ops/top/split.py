"""Split along one dimension."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, SI32, I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import Rearranges


@dataclass(frozen=True)
class Split(Op, Rearranges):
    """`num` consecutive parts along `axis`, with the extents `split_size`, or of equal size if it is absent."""

    name = "top.Split"
    axis: SI32
    num: I64
    split_size: I64Array | None = None

    def sizes(self, extent: int) -> tuple[int, ...]:
        """Return the extents of the results; raises ValueError if they do not add up."""
        sizes = self.split_size or (-(-extent // self.num),) * (self.num - 1)
        if not self.split_size:
            sizes = (*sizes, extent - sum(sizes))
        if len(sizes) != self.num or sum(sizes) != extent or min(sizes) < 0:
            raise ValueError(f"extent {extent} cannot be split into {self.num} parts of {list(sizes)}")
        return sizes

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        axis = positive_axis(self.axis, x.rank)
        before, after = x.dims[:axis], x.dims[axis + 1 :]
        return tuple(x.shape_only().with_shape((*before, size, *after)) for size in self.sizes(x.dims[axis]))

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        cuts = list(itertools.accumulate(self.sizes(x.shape[self.axis])))[:-1]
        return np.split(x, cuts, self.axis)
