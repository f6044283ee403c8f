"""Float lowerings of ops with a tensor and immediate numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import FLOAT_MODES, Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops import top, tpu

from tpuc_chip_parts.held import held_number

_LARGEST = float(np.finfo(np.float32).max)


def immediate(node: LoweringNode, value: float) -> float:
    """The number rounded to the node's float mode, saturated at its largest number."""
    assert node.chip is not None
    return held_number(value, FLOAT_MODES[node.mode], has_infinity=node.chip.has_infinity)


def as_sum(op: top.AddConst | top.SubConst) -> tuple[float, float]:
    """The factor of the operand, and the added number."""
    if not isinstance(op, top.SubConst):
        return 1.0, op.const_val
    return (-1.0, op.const_val) if op.is_reverse else (1.0, -op.const_val)


class AddConstFloat(Lowering[Any]):
    """The number is an immediate; a reversed difference is preceded by a product with -1."""

    def lower(self, node: LoweringNode[top.AddConst | top.SubConst], build: LoweringBuilder) -> Sequence[Value]:
        factor, constant = as_sum(node.op)
        result = node.float_result_type()
        values = node.operands
        if factor < 0:
            values = (build(tpu.MulConst(const_val=-1.0), values, result, f"{node.name}_negative"),)
        lowered = tpu.AddConst(
            const_val=immediate(node, constant), do_relu=node.op.do_relu, relu_limit=node.op.relu_limit
        )
        return [build(lowered, values, result)]


class MulConstFloat(Lowering[top.MulConst]):
    """The number is an immediate."""

    def lower(self, node: LoweringNode[top.MulConst], build: LoweringBuilder) -> Sequence[Value]:
        lowered = tpu.MulConst(
            const_val=immediate(node, node.op.const_val), do_relu=node.op.do_relu, relu_limit=node.op.relu_limit
        )
        return [build(lowered, node.operands, node.float_result_type())]


class ClipFloat(Lowering[Any]):
    """Two bounds, either of which may be the largest f32 number."""

    def lower(
        self, node: LoweringNode[top.Clip | top.MaxConst | top.MinConst], build: LoweringBuilder
    ) -> Sequence[Value]:
        op = node.op
        low = op.min if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MaxConst) else -_LARGEST
        high = op.max if isinstance(op, top.Clip) else op.const_val if isinstance(op, top.MinConst) else _LARGEST
        lowered = tpu.Clip(min=immediate(node, low), max=immediate(node, high))
        return [build(lowered, node.operands, node.float_result_type())]


class LeakyReluFloat(Lowering[top.LeakyRelu]):
    """The slope is an immediate."""

    def lower(self, node: LoweringNode[top.LeakyRelu], build: LoweringBuilder) -> Sequence[Value]:
        lowered = tpu.LeakyRelu(alpha=immediate(node, node.op.alpha))
        return [build(lowered, node.operands, node.float_result_type())]
