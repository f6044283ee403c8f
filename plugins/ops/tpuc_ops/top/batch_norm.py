"""Batch normalization with fixed statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.shapes import is_absent, show


@dataclass(frozen=True)
class BatchNorm(ReluFields, Op):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` per channel, then relu.

    Operands: `x: [n, c, ...]`, then mean, variance, and the optional gamma and beta with `c` elements each.
    """

    name = "top.BatchNorm"
    slots = listed(5, kept=5)
    epsilon: F64 = 1e-05

    def infer(self, operands: Types) -> Types:
        x, *others = operands
        if len(others) not in (2, 3, 4):
            raise ValueError("x, mean, variance and at most gamma and beta are needed")
        for label, type in zip(("mean", "variance", "gamma", "beta"), others, strict=False):
            if not is_absent(type) and type.size != x.dims[1]:
                raise ValueError(f"{label} {show(type.dims)} does not fit {x.dims[1]} channels")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, *others = (as_float(operand) for operand in operands)
        mean, variance, *affine = (other.reshape(-1, *(1,) * (x.ndim - 2)) for other in others)
        result = (x - mean) / np.sqrt(variance + np.float32(self.epsilon))
        if affine and affine[0].size:
            result = result * affine[0]
        if len(affine) > 1 and affine[1].size:
            result = result + affine[1]
        return [self.activate(result)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (2 + self.do_relu)
