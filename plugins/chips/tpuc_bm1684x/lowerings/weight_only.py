"""Matrix products whose matrix is stored as small integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import padded, refuse_computed

from tpuc_bm1684x.lowerings.common import float_weight
from tpuc_bm1684x.lowerings.table import TABLE

ROUNDING = 2.0**-11
"""The largest relative error of normal numbers in f16."""


@TABLE.lowers(top.A16MatMul, "f16", "bf16")
class WeightOnlyProduct(Lowering[top.A16MatMul]):
    """Integers stay as they are; scales take the type of the mode. Matrices of floats that lanes cannot hold in the
    order of their rows are those of any other product.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        if reason := refuse_computed(node):
            return reason
        scale = node.constants[2]
        if node.mode == "f16" and scale is not None and not _is_exact(scale):
            return "scales below the normal numbers of f16 would be rounded too much"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE, *(Wants.AS_IS,) * (len(node.operand_types) - 1))

    def lower(self, node: LoweringNode[top.A16MatMul], build: LoweringBuilder) -> Sequence[Value]:
        op, none = node.op, build.none()
        _, weight, scale, zp, bias = (*node.constants, None)[:5]
        assert weight is not None
        added = none if bias is None else build.weight("bias_f32", bias.astype(np.float32))
        x, result = node.operands[0], node.float_result_type()
        if op.weight_bits == 16:
            matrix = float_weight(build, "filter", weight, node.mode)
            if x.tensor.dims[-1] != padded(x.tensor.dims[-1]):
                return [build(tpu.MatMul(right_transpose=True), [x, matrix, added, none, none], result)]
            return [build(tpu.A16MatMul(weight_bits=16), [x, matrix, none, none, added], result)]
        assert scale is not None
        assert zp is not None
        lowered = tpu.A16MatMul(weight_bits=op.weight_bits, q_group_size=op.q_group_size)
        operands = [
            x,
            build.weight("integers", weight.astype(np.uint8), "ui8"),
            float_weight(build, "scale", scale, node.mode),
            build.weight("zp", zp.astype(np.uint8), "ui8"),
            added,
        ]
        return [build(lowered, operands, result)]


def _is_exact(scale: Array) -> bool:
    """True if f16 holds scales with its full precision, or exactly."""
    with np.errstate(over="ignore"):
        errors = np.abs(scale.astype(np.float16).astype(np.float32) - scale)
    return bool((errors <= np.abs(scale) * ROUNDING).all())
