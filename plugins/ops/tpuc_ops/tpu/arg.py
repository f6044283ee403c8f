"""Index of the largest or smallest stored value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F32, I64, Bool, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.arg import check_mode, places


@dataclass(frozen=True)
class Arg(Op):
    """The index along `axis`, in f32, of the extreme element by `mode` ArgMax or ArgMin.

    Of several equal ones the first, or the last with `select_last_index`. With `keepdims`, the axis stays with extent
    1.
    """

    name = "tpu.Arg"
    slots = listed(1, kept=1, results=2)
    axis: I64
    keepdims: Bool = True
    mode: Str = "ArgMax"
    select_last_index: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        check_mode(self.mode)
        axis = positive_axis(self.axis, x.rank)
        return (x.with_shape((*x.dims[:axis], *(1,) * self.keepdims, *x.dims[axis + 1 :])).with_element(F32).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        indices = places(operands[0], self.axis, self.mode, last=self.select_last_index)
        return [indices.reshape(node.result_type.dims).astype(np.float32)]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
