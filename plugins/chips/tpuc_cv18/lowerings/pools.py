"""Pooling."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Lowering,
    LoweringBuilder,
    LoweringNode,
    TensorType,
    Value,
    Wants,
)
from tpuc_chip_parts.lowering import bytes_of, pool2d, pooled_in_strips, result_with_sign, strip_count
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.averages import (
    corrected_average,
    correction_of,
    is_corrected,
    is_product,
    product_of_ones,
    whole_window,
)
from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.common import (
    QDM,
    as_bf16,
    decompose_qdm,
    may_move_scale,
    short_factor,
    with_scale,
)
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.windows import LOWEST, pad_apart
from tpuc_cv18.operands import MAX_EXTENT

_FACTOR_LIMIT = 255  # the multiplier of an average is an unsigned byte
WIDEST_BYTES = 30000
"""Maximum size of a plane that one lane holds together with its result."""


def _refuse(node: LoweringNode) -> str | None:
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    if not node.op.keepdims:
        return "keepdims must be true"
    return None


def _strips(node: LoweringNode, source: TensorType) -> int:
    return strip_count(node, WIDEST_BYTES * 8 // source.storage.bits)


def _in_strips(cell: Lowering[Any], node: LoweringNode, build: LoweringBuilder, parts: int) -> Value:
    return pooled_in_strips(node, build, parts, lambda inner, builder: cell.lower(inner, builder)[0], MAX_EXTENT)


@TABLE.lowers(top.MaxPool, "bf16", "int8")
class MaxPoolAny(Lowering[top.MaxPool]):
    """Maximum of stored values; the result keeps the operand's type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return not node.op.do_relu and strip_count(node, WIDEST_BYTES) == 1

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor
        if (parts := _strips(node, type_)) > 1:
            return [_in_strips(self, node, build, parts)]
        value, op = pad_apart(node.operands[0], whole_window(node), LOWEST[type_.storage.name], node.name, build)
        return [build(pool2d(op, "Max"), [value], type_.with_shape(node.result_type.dims))]


@TABLE.lowers(top.AvgPool, "bf16")
class AvgPoolBf16(Lowering[top.AvgPool]):
    """Sum times 1 / window size, corrected by a factor for each position where padding does not count."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if (parts := _strips(node, node.operands[0].tensor)) > 1:
            return [_in_strips(self, node, build, parts)]
        result, correction = node.float_result_type(), correction_of(node)
        value, op = pad_apart(node.operands[0], whole_window(node), 0.0, node.name, build)
        pool = pool2d(op, "Avg")
        if correction is None:
            return [build(pool, [value], result)]
        average = build(dataclasses.replace(pool, do_relu=False), [value], result, f"{node.name}_counted")
        factors = build.weight("correction_bf16", as_bf16(correction), "bf16")
        return [build(tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), [average, factors], result)]


@TABLE.lowers(top.AvgPool, "int8")
class AvgPoolInt8(Lowering[top.AvgPool]):
    """sum * multiplier >> shift, with Sx / (Sy * window size) as an unsigned byte; the operand's signedness is kept.

    The result's scale moves to the nearest one that a byte represents exactly, because averages would all have the same
    error otherwise. Where padding does not count, the result is multiplied by a byte for each position. Planes that do
    not fit in a lane are averaged in bf16, in strips. In prequantized networks the average is a convolution with
    filters of ones and a 31-bit multiplier, or computed in bf16 where padding does not count.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_product(node) or is_corrected(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS if strip_count(node, WIDEST_BYTES) > 1 else Wants.MODE,)

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    @with_relu_apart
    def lower(self, node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        source = node.operands[0].tensor
        if is_product(node):
            return [product_of_ones(node, build, op.kernel_shape[0] * op.kernel_shape[1])]
        if is_corrected(node):
            return [corrected_average(node, build)]
        if strip_count(node, WIDEST_BYTES) > 1:
            value = Bf16Composer(node, build).operand()
            return AvgPoolBf16().lower(dataclasses.replace(node, mode="bf16", operands=(value,)), build)
        result = result_with_sign(node, unsigned=source.storage.is_unsigned)
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        factor = source.uniform.scale / (result.uniform.scale * taps)
        multiplier, shift = short_factor(factor, _FACTOR_LIMIT)
        correction = correction_of(node)
        exact = result
        if correction is not None or may_move_scale(node):
            exact = with_scale(result, source.uniform.scale / (math.ldexp(multiplier, -shift) * taps))
        value, op = pad_apart(node.operands[0], whole_window(node), 0.0, node.name, build)
        pool = pool2d(op, "Avg", multiplier, shift)
        if correction is None:
            return [build(pool, [value], exact)]
        average = build(dataclasses.replace(pool, do_relu=False), [value], exact, f"{node.name}_counted")
        stored, scale, element = bytes_of(correction)
        number, places = decompose_qdm(scale * exact.uniform.scale / result.uniform.scale)
        product = tpu.Mul(
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            multiplier=number,
            rshift=places,
            **QDM,
        )
        return [build(product, [average, build.weight("correction_u8", stored, element)], result)]
