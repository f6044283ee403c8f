"""Attributes shared by cumulative sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis


@dataclass(frozen=True)
class Cumulative(Op):
    """Combine all elements along `axis` up to each one, or up to the one before it with `exclusive`.

    With `reverse`, start from the end. Further operands, if any, are ignored.
    """

    axis: I64
    exclusive: Bool = False
    reverse: Bool = False
    combine: ClassVar[np.ufunc]

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        positive_axis(self.axis, x.rank)
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = np.moveaxis(as_float(operands[0]), self.axis, -1)
        x = x[..., ::-1] if self.reverse else x
        result = self.combine.accumulate(x, -1)
        if self.exclusive:
            result = np.concatenate([np.full_like(x[..., :1], self.combine.identity), result[..., :-1]], -1)
        result = result[..., ::-1] if self.reverse else result
        return [np.ascontiguousarray(np.moveaxis(result, -1, self.axis))]

    def flops(self, node: Node) -> int:
        return node.result_type.size
