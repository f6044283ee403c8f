"""The largest or smallest elements along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Types, numpy_dtype

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis


@dataclass(frozen=True)
class TopK(Op):
    """The `K` largest (or smallest) elements along `axis`, best first, and their indices; ties by the lower index."""

    name = "top.TopK"
    axis: I64
    K: I64
    largest: Bool = True
    sorted: Bool = True

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        axis = positive_axis(self.axis, x.rank)
        if not 0 < self.K <= x.dims[axis]:
            raise ValueError(f"K must be in 1..{x.dims[axis]}, the extent of axis {axis}, this one is {self.K}")
        result = x.shape_only().with_shape((*x.dims[:axis], self.K, *x.dims[axis + 1 :]))
        return (result, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0] if node.result_type.is_quantized else as_float(operands[0])
        keys = as_float(x)
        order = np.argsort(-keys if self.largest else keys, axis=self.axis, kind="stable")
        places = np.take(order, np.arange(self.K), self.axis)
        return [np.take_along_axis(x, places, self.axis), places.astype(numpy_dtype(node.result_types[1].storage))]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
