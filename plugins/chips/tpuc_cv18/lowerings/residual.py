"""Sums of two tensors of a network that is quantised already, as products of the channels of both."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import STEPS, is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array
from tpuc_cv18.lowerings.qdm import clamps_at_lowest, stored_qdm


def is_product(node: LoweringNode[top.Add | top.Sub]) -> bool:
    """Is it a sum of two computed tensors of one shape whose result has a stated scale?"""
    op, types = node.op, node.operand_types
    plain = len(types) == 2 and all(constant is None for constant in node.constants) and len(types[0].dims) > 1
    if not plain or not is_stated(node) or any(factor != 1.0 for factor in op.coeff or ()):
        return False
    same = all(type_.is_quantised and type_.dims == node.result_type.dims for type_ in types)
    return same and (not op.do_relu or clamps_at_lowest(node))


def sum_as_product(node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Value:
    """`f * (a * x + b * y)` with bytes a and b, and f of 31 bits: a 1×1 convolution of both tensors' channels. Many
    channels are seen as few with more rows, since a convolution multiplies each with every other.
    """
    dims = node.result_type.dims
    assert node.chip is not None
    lanes = node.chip.lanes
    group = math.gcd(dims[1], lanes) if dims[1] > lanes else dims[1]
    image = (dims[0], group, dims[1] // group * math.prod(dims[2:-1]), dims[-1] if len(dims) > 2 else 1)
    parts = [_shaped(value, image, f"{node.name}_part{index}", build) for index, value in enumerate(node.operands)]
    both = (image[0], 2 * group, *image[2:])
    first, second = (value.tensor.uniform for value in parts)
    plain = parts[0].tensor.with_shape(both).with_element(dataclasses.replace(first, zero_point=0)).at(None)
    joined = build(tpu.Concat(axis=1), parts, plain, f"{node.name}_both")
    signs = (1, 1) if isinstance(node.op, top.Add) else (-1, 1) if node.op.is_reverse else (1, -1)
    left, right = nearest_ratio(first.scale, second.scale)
    filters = np.concatenate([np.eye(group) * left * signs[0], np.eye(group) * right * signs[1]], axis=1)
    filters = filters.reshape(group, 2 * group, 1, 1)
    result = node.quantised_result_type()
    points = left * signs[0] * first.zero_point + right * signs[1] * second.zero_point
    unit = max(first.scale, second.scale) / max(left, right)
    bias: Array = np.full(group, -points * unit)
    one = dataclasses.replace(first, scale=1.0, zero_point=0)
    product = stored_qdm(filters, np.asarray([unit]), bias, one, result.uniform)
    assert product.bias is not None
    operands = [
        joined,
        build.weight("filter_i8", product.filters, "si8"),
        build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1)),
    ]
    op = tpu.Conv2D(
        kernel_shape=(1, 1),
        multiplier=product.multipliers,
        rshift=product.right_shifts,
        offset_in_bias=bool(zero_point(result)),
        do_relu=node.op.do_relu and not zero_point(result),
        **QDM,
    )
    if image == dims:
        return build(op, operands, result)
    value = build(op, operands, result.with_shape(image), f"{node.name}_sum")
    return build(tpu.Reshape(shape=dims), [value], result)


def nearest_ratio(first: float, second: float) -> tuple[int, int]:
    """Bytes whose quotient is nearest to that of two scales, measured by the larger term."""
    small, large = sorted((first, second))
    best = min(range(1, STEPS + 1), key=lambda byte: abs(round(byte * small / large) / byte - small / large))
    pair = (round(best * small / large), best)
    return pair if first == small else (pair[1], pair[0])


def _shaped(value: Value, dims: Sequence[int], name: str, build: LoweringBuilder) -> Value:
    type_ = value.tensor
    if type_.dims == tuple(dims):
        return value
    return build(tpu.Reshape(shape=tuple(dims)), [value], type_.with_shape(tuple(dims)).at(None), name)
