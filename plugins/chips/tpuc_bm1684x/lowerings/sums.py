"""Float output of integer products: their int32 sums are not requantized."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, ScalarType, Value
from tpuc_ops import tpu

from tpuc_bm1684x.lowerings.common import Array


def scaled_sums(
    node: LoweringNode,
    build: LoweringBuilder,
    op: tpu.Conv2D | tpu.Deconv | tpu.MatMul,
    operands: Sequence[Value],
    scales: Array,
    axis: int,
) -> Value:
    """The int32 sums of `op` in f32, multiplied by the scale of each channel along `axis`; then the relu of `op`."""
    result = node.float_result_type()
    plain = dataclasses.replace(op, do_relu=False, relu_limit=-1.0)
    sums = build(plain, operands, result.with_element(ScalarType("i32")).at(None), f"{node.name}_sums")
    floats = build(tpu.Cast(with_scale=False), [sums], result.at(None), f"{node.name}_floats")
    dims = [1] * len(result.dims)
    dims[axis] = result.dims[axis]
    factors = build.weight("scales", np.broadcast_to(scales, dims[axis]).reshape(dims).astype(np.float32))
    return build(tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), [floats, factors], result)
