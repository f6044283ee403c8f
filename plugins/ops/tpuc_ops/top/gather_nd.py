"""Selection by indices over several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import show
from tpuc_ops.traits import ReadsIndices


@dataclass(frozen=True)
class GatherND(Op, ReadsIndices):
    """The last dimension of the indices addresses the leading dimensions of x, after `batch_dims` shared ones.

    Negative indices count from the end.
    """

    name = "top.GatherND"
    batch_dims: I64 = 0

    def infer(self, operands: Types) -> Types:
        x, indices = operands[:2]
        count, batch = indices.dims[-1], self.batch_dims
        if batch + count > x.rank or batch >= indices.rank or x.dims[:batch] != indices.dims[:batch]:
            raise ValueError(f"indices {show(indices.dims)} do not fit {show(x.dims)} with {batch} batch dimensions")
        return (x.shape_only().with_shape((*indices.dims[:-1], *x.dims[batch + count :])),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices = operands[0], operands[1].astype(np.int64)
        batch = math.prod(x.shape[: self.batch_dims])
        rows = indices.reshape(batch, -1, indices.shape[-1])
        x = x.reshape(batch, *x.shape[self.batch_dims :])
        places = (np.arange(batch)[:, None], *np.moveaxis(rows, -1, 0))
        return [x[places].reshape(node.result_type.dims)]
