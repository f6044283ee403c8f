"""Ops with numbers per channel, in the mode of the node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import ABSENT, NO_LOWERING, Legalization, LegalizationBuilder, LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

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
    """A single slope becomes a LeakyRelu; slopes along other dimensions become those of channels, by a reshape."""

    into = (top.LeakyRelu, top.PRelu, top.Reshape)

    def refuse(self, node: LoweringNode) -> str | None:
        slope = node.constants[1]
        if slope is None:
            return "the slope must be a constant"
        is_other = slope.size == 1 or _slopes_of_channels(node.operand_types[0].dims, slope) is not None
        return None if is_other else NO_LOWERING

    def rewrite(self, node: LoweringNode[top.PRelu], build: LegalizationBuilder) -> Sequence[Value]:
        slope, source, result, name = node.constants[1], node.operands[0], node.result_type, node.name
        assert slope is not None, "refused above"
        if slope.size == 1:
            return [build(top.LeakyRelu(alpha=float(slope.item())), [source], result, name)]
        found = _slopes_of_channels(result.dims, slope)
        assert found is not None, "refused above"
        dims, slopes = found
        moved = build(top.Reshape(shape=dims), [source], source.tensor.with_shape(dims), f"{name}_in")
        sloped = build(
            node.op, [moved, build.weight(f"{name}_slopes", slopes)], result.with_shape(dims), f"{name}_rows"
        )
        return [build(top.Reshape(shape=result.dims), [sloped], result, name)]


def _slopes_of_channels(dims: Sequence[int], slope: Array) -> tuple[tuple[int, ...], Array] | None:
    """The shape whose channels are all dimensions up to the last one with slopes, and those; None if it is the same."""
    shape = (1,) * (len(dims) - slope.ndim) + slope.shape
    first = 0 if dims and shape[0] > 1 else 1
    last = max((axis for axis, extent in enumerate(shape) if extent > 1), default=0)
    inner = tuple(dims[first : last + 1])
    merged = (math.prod(dims[:first]), math.prod(inner), math.prod(dims[last + 1 :]), 1)
    if first and last <= 1:
        return None
    slopes = np.broadcast_to(slope.reshape(shape[first : last + 1]), inner)
    return merged, np.ascontiguousarray(slopes, np.float32).reshape(1, -1, 1, 1)
