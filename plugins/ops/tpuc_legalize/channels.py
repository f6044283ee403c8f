"""Ops with numbers per channel, in the mode of the node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ABSENT, Legalization, LegalizationBuilder, LoweringNode, Value
from tpuc_ops import top

from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.Scale)
class ScaleAny(Legalization[top.Scale]):
    """A depthwise convolution with a kernel of one element, the same products and sums."""

    into = (top.Conv, top.Reshape)

    def refuse(self, node: LoweringNode) -> str | None:
        if node.constants[1] is None or len(node.operand_types[0].dims) < 2:
            return "the scale must be a constant, and the tensor have channels"
        has_bias = len(node.operand_types) > 2 and node.operand_types[2] is not ABSENT
        return "the bias must be a constant" if has_bias and node.constants[2] is None else None

    def rewrite(self, node: LoweringNode[top.Scale], build: LegalizationBuilder) -> Sequence[Value]:
        op, source, result, name = node.op, node.operands[0], node.result_type, node.name
        scale, bias = node.constants[1], node.constants[2] if len(node.constants) > 2 else None
        assert scale is not None, "refused above"
        channels, dims = scale.size, result.dims
        images = dims if len(dims) == 4 else (dims[0], channels, math.prod(dims[2:]), 1)
        point = top.Conv(kernel_shape=(1, 1), group=channels, do_relu=op.do_relu, relu_limit=op.relu_limit)
        filters = build.weight(f"{name}_filter", scale.reshape(channels, 1, 1, 1))
        biases = build.none() if bias is None else build.weight(f"{name}_bias", bias.reshape(-1))
        if images == dims:
            return [build(point, [source, filters, biases], result, name)]
        moved = build(top.Reshape(shape=images), [source], source.tensor.with_shape(images), f"{name}_in")
        value = build(point, [moved, filters, biases], result.with_shape(images), f"{name}_images")
        return [build(top.Reshape(shape=dims), [value], result, name)]


@TABLE.legalizes(top.PRelu)
class PReluAny(Legalization[top.PRelu]):
    """A PRelu with a single slope becomes a LeakyRelu."""

    into = (top.LeakyRelu,)

    def refuse(self, node: LoweringNode) -> str | None:
        slope = node.constants[1]
        return None if slope is not None and slope.size == 1 else "the slope must be a single constant"

    def rewrite(self, node: LoweringNode[top.PRelu], build: LegalizationBuilder) -> Sequence[Value]:
        slope = node.constants[1]
        assert slope is not None, "refused above"
        return [build(top.LeakyRelu(alpha=float(slope.item())), node.operands[:1], node.result_type, node.name)]
