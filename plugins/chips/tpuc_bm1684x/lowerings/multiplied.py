"""Convolutions with several filters per channel."""

from __future__ import annotations

import dataclasses
import math

from tpuc.api import LoweringBuilder, LoweringNode, UniformPerAxis
from tpuc_ops import top

from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.repetition import tiled

_PIXELS = 16
"""Places that a lane computes in a cycle."""
_BYTES = 16
"""Bytes of a repeated channel that are stored and loaded again in a cycle, with a margin."""


def repeated(node: LoweringNode[top.Conv], build: LoweringBuilder) -> LoweringNode[top.Conv]:
    """Repeat every channel for each of its filters, where a depthwise convolution of the repeated channels is faster
    than one channel after the other.
    """
    filters, value, group = node.constants[1], node.operands[0], node.op.group
    assert filters is not None
    outputs, own, *kernel = filters.shape
    if own != 1 or not 1 < group < outputs or isinstance(value.tensor.element, UniformPerAxis):
        return node
    n, channels, h, w = value.tensor.dims
    steps = n * math.prod(kernel) * -(-math.prod(node.result_type.dims[2:]) // _PIXELS)
    lanes = BM1684X.lanes if node.chip is None else node.chip.lanes
    saved = steps * (group - -(-outputs // lanes))
    if saved < value.tensor.size * (outputs // group) * value.tensor.storage.bits // 8 // _BYTES:
        return node
    name = f"{node.name}_repeated"
    rows = reshaped(build, value, (n, channels, 1, h * w), f"{name}_rows")
    rows = tiled(build, rows, 2, outputs // group, f"{name}_filters")
    value = reshaped(build, rows, (n, outputs, h, w), name)
    types = (node.operand_types[0].with_shape(value.tensor.dims), *node.operand_types[1:])
    op = dataclasses.replace(node.op, group=outputs)
    return dataclasses.replace(node, op=op, operands=(value, *node.operands[1:]), operand_types=types)
