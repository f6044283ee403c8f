"""Products whose filters have zero points per channel that are too far apart for one byte."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import F32, LoweringBuilder, LoweringNode, Value
from tpuc_ops import tpu
from tpuc_ops.quant.casts import parameters

from tpuc_bm1684x.lowerings.common import Array

_STEPS = 255


def is_too_wide(filters: Array) -> bool:
    """True if no zero point of the whole filter makes bytes of integers that have none."""
    return filters.dtype.kind in "iu" and int(filters.max(initial=0)) - int(filters.min(initial=0)) > _STEPS


def in_floats(node: LoweringNode, build: LoweringBuilder) -> LoweringNode:
    """The same product of real numbers in f32, which the framework rounds to the stated type."""
    source, filters, bias = node.operands[0].tensor, node.constants[1], node.constants[2]
    assert filters is not None
    scale, point = parameters(node.operand_types[1])
    real = ((filters - point) * scale).astype(np.float32)
    wide = build(tpu.Cast(with_scale=True), [node.operands[0]], source.with_element(F32).at(None), f"{node.name}_real")
    operands: list[Value] = [wide, build.weight("filter_f32", real), node.operands[2]]
    if bias is not None and bias.dtype.kind == "i":
        bias = (bias * (np.reshape(scale, -1) * source.uniform.scale)).astype(np.float32)
        operands[2] = build.weight("bias_f32", bias)
    return dataclasses.replace(node, mode="f32", operands=tuple(operands), constants=(None, real, bias))
