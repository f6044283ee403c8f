"""Softmax: in the runtime at the end of a network, on the chip elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Return, Uniform, Value, Wants, numpy_dtype
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import without_point, zero_point
from tpuc_ops.quant.arithmetic import dequantise
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import as_bf16
from tpuc_cv18.lowerings.factors import stored_steps
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.operands import MAX_EXTENT

_LARGEST_BYTE = 255
_WIDEST_SPREAD = 80.0
"""Exponents of e around 0, half of them on either side, whose sums bf16 has too."""
_MOST_PADS = 15
"""Behind a window."""
_ENDS = (Return, top.Permute, top.DetectionOutput)
"""What may come after the last softmax of a network; the processor goes on with the last of them itself."""


@TABLE.lowers(top.Softmax, "bf16", "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """A last one in f32 by the runtime: eight bits cannot hold the tail of a distribution over many classes. What other
    ops read is computed in bf16 on the chip, which need not wait for the processor then; so are logarithms. Where the
    network states operand and result, a table has the exponentials of all bytes.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return _has_table(node) or not zero_point(node.result_type)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if _has_table(node):
            return (Wants.MODE,)
        return (Wants.AS_IS if zero_point(node.operand_types[0]) else Wants.FLOAT,)

    def refuse(self, node: LoweringNode) -> str | None:
        return (
            "the runtime computes those that end a network" if _stays_on_chip(node) and not _has_table(node) else None
        )

    def lower(self, node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Sequence[Value]:
        if _has_table(node):
            return [_by_table(node, build)]
        lowered = tpu.Softmax(axis=node.op.axis, beta=node.op.beta, log=node.op.log)
        (value,) = node.operands
        if value.tensor.is_quantised and value.tensor.storage.is_unsigned:
            value = cast(value, value.tensor.shape_only().with_element(F32), f"{node.name}_floats", build)
        elif value.tensor.is_quantised:
            value = _floats(value, node, build)
        return [build(lowered, [value], value.tensor.at(None))]


def _floats(value: Value, node: LoweringNode, build: LoweringBuilder) -> Value:
    """Integers with a zero point as floats that are all moved by one number, which a softmax does not see."""
    plain = without_point(value.tensor).at(None)
    moved = build(tpu.Reshape(shape=plain.dims), [value], plain, f"{node.name}_moved")
    return cast(moved, plain.shape_only().with_element(F32), f"{node.name}_floats", build)


def _stays_on_chip(node: LoweringNode[top.Softmax]) -> bool:
    dims = node.operand_types[0].dims
    if dims[positive_axis(node.op.axis, len(dims))] > MAX_EXTENT:
        return False
    return not all(isinstance(user, _ENDS) for user in node.users) or node.op.log or node.op.beta != 1.0


def _has_table(node: LoweringNode[top.Softmax]) -> bool:
    """Are operand and result stated, and the exponentials of all bytes numbers that bf16 has?"""
    element = node.operand_types[0].element
    if node.mode != "int8" or node.op.log or not (isinstance(element, Uniform) and is_stated(node)):
        return False
    return _stays_on_chip(node) and abs(node.op.beta) * element.scale * _LARGEST_BYTE <= _WIDEST_SPREAD


def _by_table(node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Value:
    """Exponentials over their sums in steps of the result."""
    steps, (value,), result = Bf16Composer(node, build), node.operands, node.quantised_result_type()
    dims = result.dims
    axis = positive_axis(node.op.axis, len(dims))
    before, count, behind = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
    rows, is_row = ((1, before, count, behind), False) if behind > 1 else ((1, before, 1, count), True)
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(value.tensor.storage))
    real = dequantise(every, value.tensor.uniform.scale, zero_point(value.tensor)).astype(np.float64) * node.op.beta
    table = np.exp(real - (real.max() + real.min()) / 2).reshape(1, 1, 1, 256)
    powers = steps.do(tpu.Lut(), [value, build.weight("powers_bf16", as_bf16(table), "bf16")], dims)
    powers = steps.reshape(powers, rows)
    wide = 1 << (count - 1).bit_length()  # of which bf16 says the reciprocal
    wide = wide if wide - count <= _MOST_PADS else count
    kernel, pads = ((1, wide), (0, 0, 0, wide - count)) if is_row else ((wide, 1), (0, 0, wide - count, 0))
    pool = tpu.Pool2D(pool_mode="Avg", kernel_shape=kernel, pads=pads, count_include_pad=True)
    mean = steps.do(pool, [powers], (1, before, 1, behind))
    shares = steps.do(tpu.Div(), [powers, steps.times(mean, wide * result.uniform.scale)], rows)
    return stored_steps(steps.reshape(shares, dims), result, node.name, build)
