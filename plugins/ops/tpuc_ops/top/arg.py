"""Index of the largest or smallest element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis


def check_mode(mode: str) -> None:
    """Raise ValueError for other modes than ArgMax and ArgMin."""
    if mode not in ("ArgMax", "ArgMin"):
        raise ValueError(f"mode must be ArgMax or ArgMin, this one is {mode}")


def places(x: Array, axis: int, mode: str, *, last: bool) -> Array:
    """Return the indices of the extreme elements along `axis`, the first or the last of equal ones; the axis is
    removed.
    """
    x = np.moveaxis(x, axis, -1)
    find = np.argmax if mode == "ArgMax" else np.argmin
    return x.shape[-1] - 1 - find(x[..., ::-1], -1) if last else find(x, -1)


@dataclass(frozen=True)
class Arg(Op):
    """Index and value of the extreme element along `axis`, by `mode` ArgMax or ArgMin.

    Of several equal ones the first, or the last with `select_last_index`. With `keepdims`, the axis stays with extent
    1.
    """

    name = "top.Arg"
    axis: I64
    keepdims: Bool = True
    mode: Str = "ArgMax"
    select_last_index: Bool = False

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        check_mode(self.mode)
        axis = positive_axis(self.axis, x.rank)
        result = x.shape_only().with_shape((*x.dims[:axis], *(1,) * self.keepdims, *x.dims[axis + 1 :]))
        return (result, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        indices = places(x, self.axis, self.mode, last=self.select_last_index)[..., None]
        values = np.take_along_axis(np.moveaxis(x, self.axis, -1), indices, -1)
        dims = node.result_type.dims
        indices, values = indices.reshape(dims).astype(np.float32), values.reshape(dims)
        return [indices, values.astype(operands[0].dtype) if node.result_types[1].is_quantized else values]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
