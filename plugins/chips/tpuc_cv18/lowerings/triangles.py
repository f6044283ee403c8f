"""Triangular matrices: cumulative sums as products, and masks that keep one triangle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.common import as_bf16
from tpuc_cv18.lowerings.table import TABLE


@TABLE.lowers(top.CumSum, "bf16", "int8")
class CumSumAny(Lowering[top.CumSum]):
    """A 1x1 convolution with the axis as channels: each sum is accumulated in float32 and rounded once."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.CumSum], build: LoweringBuilder) -> Sequence[Value]:
        steps, dims = Bf16Composer(node, build), node.result_type.dims
        axis = positive_axis(node.op.axis, len(dims))
        shape = (math.prod(dims[:axis]), dims[axis], 1, math.prod(dims[axis + 1 :]))
        ones = np.tril(np.ones((dims[axis], dims[axis]), np.float32), -1 if node.op.exclusive else 0)
        filters = (ones[::-1, ::-1] if node.op.reverse else ones)[:, :, None, None]
        weight = build.weight("triangle_bf16", as_bf16(np.ascontiguousarray(filters)), "bf16")
        value = steps.reshape(steps.operand(), shape)
        conv = tpu.Conv2D(kernel_shape=(1, 1), with_bias=False)
        return steps.last(steps.do(conv, [value, weight, build.none()], shape))


@TABLE.lowers(top.Trilu, "bf16", "int8")
class TriluAny(Lowering[top.Trilu]):
    """Multiplies by a mask of ones and zeros."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.Trilu], build: LoweringBuilder) -> Sequence[Value]:
        steps = Bf16Composer(node, build)
        keep = np.triu if node.op.upper else np.tril
        mask = keep(np.ones(node.result_type.dims[-2:], np.float32), node.op.diagonal)
        return steps.last(steps.do(tpu.Mul(), [steps.operand(), steps.constant(mask)]))
