"""Where the largest or smallest element is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis


@dataclass(frozen=True)
class Arg(Op):
    """Index and value of the extreme element along `axis`, by `mode` ArgMax or ArgMin.

    Of several equal ones the first, or the last with `select_last_index`. The axis stays with extent 1 when `keepdims`.
    """

    name = "top.Arg"
    axis: I64
    keepdims: Bool = True
    mode: Str = "ArgMax"
    select_last_index: Bool = False

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.mode not in ("ArgMax", "ArgMin"):
            raise ValueError(f"mode must be ArgMax or ArgMin, this one is {self.mode}")
        axis = positive_axis(self.axis, x.rank)
        result = x.shape_only().with_shape((*x.dims[:axis], *(1,) * self.keepdims, *x.dims[axis + 1 :]))
        return (result, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        places = self._places(x)[..., None]
        values = np.take_along_axis(np.moveaxis(x, self.axis, -1), places, -1)
        dims = node.result_type.dims
        places, values = places.reshape(dims).astype(np.float32), values.reshape(dims)
        return [places, values.astype(operands[0].dtype) if node.result_types[1].is_quantised else values]

    def _places(self, x: Array) -> Array:
        """With the axis last and gone."""
        x = np.moveaxis(x, self.axis, -1)
        find = np.argmax if self.mode == "ArgMax" else np.argmin
        if self.select_last_index:
            return x.shape[-1] - 1 - find(x[..., ::-1], -1)
        return find(x, -1)

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
