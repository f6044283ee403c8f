"""Layer normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, SI32, I64Array, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.shapes import is_absent, positive_axis, show
from tpuc_ops.traits import ComputedInFloat


@dataclass(frozen=True)
class LayerNorm(Op, ComputedInFloat):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over all dimensions from `axis` on.

    Operands: x, then weight and bias, both optional, with the extents from `axis` on.
    """

    name = "top.LayerNorm"
    slots = listed(3, kept=3)
    axis: SI32 = -1
    normalized_shape: I64Array = ()
    eps: F64 = 1e-05

    def infer(self, operands: Types) -> Types:
        x, *affine = operands
        rest = x.dims[positive_axis(self.axis, x.rank) :]
        for label, type in zip(("weight", "bias"), affine, strict=False):
            if not is_absent(type) and type.size != math.prod(rest):
                raise ValueError(f"{label} {show(type.dims)} does not fit {show(rest)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, *affine = (as_float(operand) for operand in operands)
        start = positive_axis(self.axis, x.ndim)
        axes = tuple(range(start, x.ndim))
        centered = x - x.mean(axes, keepdims=True)
        variance = np.square(centered).mean(axes, keepdims=True)
        result = centered / np.sqrt(variance + np.float32(self.eps))
        if affine and affine[0].size:
            result = result * affine[0].reshape(x.shape[start:])
        if len(affine) > 1 and affine[1].size:
            result = result + affine[1].reshape(x.shape[start:])
        return [result]

    def flops(self, node: Node) -> int:
        return 7 * node.result_type.size
