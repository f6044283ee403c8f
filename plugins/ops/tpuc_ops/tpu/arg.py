"""Where the largest or smallest stored value is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F32, I64, Bool, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis


@dataclass(frozen=True)
class Arg(Op):
    """The index along `axis`, in f32, of the extreme element by `mode` ArgMax or ArgMin.

    Of several equal ones the first, or the last with `select_last_index`. The axis stays with extent 1 when `keepdims`.
    """

    name = "tpu.Arg"
    axis: I64
    keepdims: Bool = True
    mode: Str = "ArgMax"
    select_last_index: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.mode not in ("ArgMax", "ArgMin"):
            raise ValueError(f"mode must be ArgMax or ArgMin, this one is {self.mode}")
        axis = positive_axis(self.axis, x.rank)
        return (x.with_shape((*x.dims[:axis], *(1,) * self.keepdims, *x.dims[axis + 1 :])).with_element(F32).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = np.moveaxis(operands[0], self.axis, -1)
        find = np.argmax if self.mode == "ArgMax" else np.argmin
        places = x.shape[-1] - 1 - find(x[..., ::-1], -1) if self.select_last_index else find(x, -1)
        return [places.reshape(node.result_type.dims).astype(np.float32)]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
