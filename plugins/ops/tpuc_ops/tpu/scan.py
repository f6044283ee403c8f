"""Cumulative sums and products along one dimension as the chip computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.shapes import positive_axis


@dataclass(frozen=True)
class Scan(Op):
    """Sums (`mode` Sum) or products (Prod) of all elements along `axis` up to each one, in float32.

    Computed by doubling: every element is combined in turn with the one 1, 2, 4, ... positions before it. With
    `exclusive`, results move by one position, and the first is 0 or 1. `reverse`: from the end.
    """

    name = "tpu.Scan"
    axis: I64
    mode: Str = "Sum"
    exclusive: Bool = False
    reverse: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.mode not in ("Sum", "Prod"):
            raise ValueError(f"mode must be Sum or Prod, this one is {self.mode}")
        positive_axis(self.axis, x.rank)
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = np.moveaxis(as_float(operands[0]), self.axis, 0)
        x = np.array(x[::-1] if self.reverse else x)
        combine = np.add if self.mode == "Sum" else np.multiply
        step = 1
        with np.errstate(all="ignore"):
            while step < len(x):
                x = np.concatenate([x[:step], combine(x[step:], x[:-step])])
                step *= 2
        if self.exclusive:
            x = np.concatenate([np.full_like(x[:1], 0 if self.mode == "Sum" else 1), x[:-1]])
        x = x[::-1] if self.reverse else x
        return [np.ascontiguousarray(stored(np.moveaxis(x, 0, self.axis), node.result_type))]

    def flops(self, node: Node) -> int:
        return node.result_type.size * max(node.result_type.dims[self.axis] - 1, 1).bit_length()
