"""Pooling."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import (
    BF16,
    F32,
    Calibrated,
    Lowering,
    LoweringBuilder,
    LoweringNode,
    Node,
    TensorType,
    Uniform,
    Value,
    Wants,
)
from tpuc_chip_parts.lowering import bytes_of, is_stated, pool2d, pooled_in_strips, result_with_sign, strip_count
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.common import (
    QDM,
    Array,
    as_bf16,
    bf16,
    decompose_qdm,
    may_move_scale,
    short_factor,
    with_scale,
)
from tpuc_cv18.lowerings.factors import steps_by_table, stored_steps
from tpuc_cv18.lowerings.qdm import stored_qdm
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.windows import LOWEST, most_stride, pad_apart
from tpuc_cv18.operands import MAX_EXTENT

_FACTOR_LIMIT = 255  # the multiplier of an average is an unsigned byte
WIDEST_BYTES = 30000
"""Of a plane that one lane holds, together with its result."""
MOST_TAPS = 32
"""Rows, and columns, of a window over which averages are convolutions."""


def _refuse(node: LoweringNode) -> str | None:
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    if not node.op.keepdims:
        return "its result keeps the pooled dimensions, this one's does not"
    return None


def _overhang(node: LoweringNode) -> tuple[int, int]:
    """Rows and columns that the last windows reach beyond the padding (`ceil_mode`)."""
    return node.op.window().overhang(node.operand_types[0].dims[-2:])


def _whole(node: LoweringNode) -> Any:
    """The op with all that its windows see beyond the operand as padding that counts."""
    (upper, left, bottom, right), (below, beside) = node.op.pads, _overhang(node)
    pads = (upper, left, bottom + below, right + beside)
    return dataclasses.replace(node.op, pads=pads, ceil_mode=None, count_include_pad=True)


def _correction(node: LoweringNode) -> Array | None:
    """What averages that count all padding are multiplied by, per place; None where both are the same."""
    whole = _whole(node)
    if not any(whole.pads) or (whole.pads == node.op.pads and node.op.count_include_pad):
        return None
    rows = TensorType((1, 1, *node.operand_types[0].dims[2:]), F32)
    places = TensorType((1, 1, *node.result_type.dims[2:]), F32)
    wanted, counted = (
        op.evaluate(Node(op, (rows,), (places,)), [np.ones(rows.dims, np.float32)])[0] for op in (node.op, whole)
    )
    return wanted / counted


def _strips(node: LoweringNode, source: TensorType) -> int:
    return strip_count(node, WIDEST_BYTES * 8 // source.storage.bits)


def _in_strips(cell: Lowering[Any], node: LoweringNode, build: LoweringBuilder, parts: int) -> Value:
    return pooled_in_strips(node, build, parts, lambda inner, builder: cell.lower(inner, builder)[0], MAX_EXTENT)


@TABLE.lowers(top.MaxPool, "bf16", "int8")
class MaxPoolAny(Lowering[top.MaxPool]):
    """The maximum of stored values; the result keeps the operand's type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return not node.op.do_relu and strip_count(node, WIDEST_BYTES) == 1

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor
        if (parts := _strips(node, type_)) > 1:
            return [_in_strips(self, node, build, parts)]
        value, op = pad_apart(node.operands[0], _whole(node), LOWEST[type_.storage.name], node.name, build)
        return [build(pool2d(op, "Max"), [value], type_.with_shape(node.result_type.dims))]


@TABLE.lowers(top.AvgPool, "bf16")
class AvgPoolBf16(Lowering[top.AvgPool]):
    """Sum times 1 / window; where padding does not count, times what that makes too little."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if (parts := _strips(node, node.operands[0].tensor)) > 1:
            return [_in_strips(self, node, build, parts)]
        result, correction = node.float_result_type(), _correction(node)
        value, op = pad_apart(node.operands[0], _whole(node), 0.0, node.name, build)
        pool = pool2d(op, "Avg")
        if correction is None:
            return [build(pool, [value], result)]
        average = build(dataclasses.replace(pool, do_relu=False), [value], result, f"{node.name}_counted")
        factors = build.weight("correction_bf16", as_bf16(correction), "bf16")
        return [build(tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), [average, factors], result)]


def _is_product(node: LoweringNode[top.AvgPool]) -> bool:
    """Is the average one of stated integers, all elements of all windows count, and commands can say the window?"""
    op = node.op
    counts = not any(op.pads) and not any(_overhang(node))
    small = max(op.kernel_shape) <= MOST_TAPS and max(_strides(node)) <= most_stride(node)
    source = node.operand_types[0]
    stored = isinstance(source.element, (Calibrated, Uniform))  # of several that are stated some become calibrated
    stated = stored and (is_stated(node) or zero_point(source) != 0)
    return stated and counts and small and len(op.kernel_shape) == 2


def _is_corrected(node: LoweringNode[top.AvgPool]) -> bool:
    """Is it one of integers that the network states, and padding does not count?"""
    source = node.operand_types[0]
    if len(node.op.kernel_shape) != 2 or not isinstance(source.element, (Calibrated, Uniform)):
        return False
    stated = is_stated(node) or zero_point(source) != 0
    return stated and strip_count(node, WIDEST_BYTES) == 1 and _correction(node) is not None


def _lean(node: LoweringNode[top.AvgPool]) -> int:
    """To which side halves go: where no scale changes, runtimes round integers away from 0, else floats to even."""
    if node.op.round_mode == "HalfToEven" or node.operand_types[0].element != node.result_type.element:
        return 0
    return -1 if node.op.round_mode == "HalfDown" else 1


def _strides(node: LoweringNode[top.AvgPool]) -> tuple[int, ...]:
    """1 where there is no second place."""
    sizes = zip(node.operand_types[0].dims[2:], node.op.kernel_shape, node.op.strides, strict=True)
    return tuple(1 if size == kernel else step for size, kernel, step in sizes)


def product_of_ones(node: LoweringNode[top.AvgPool], build: LoweringBuilder, taps: int) -> Value:
    """The sums over all windows of an average, over `taps`."""
    op, value, result = node.op, node.operands[0], node.quantised_result_type()
    channels = value.tensor.dims[1]
    filters = np.ones((channels, 1, *op.kernel_shape), np.float32)
    product = stored_qdm(filters, np.ones(1), None, value.tensor.uniform, result.uniform, taps, _lean(node))
    operands = [value, build.weight("filter_i8", product.filters, "si8"), build.none()]
    if product.bias is not None:
        operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
    lowered = tpu.Conv2D(
        kernel_shape=op.kernel_shape,
        strides=_strides(node),
        group=channels,
        with_bias=product.bias is not None,
        multiplier=product.multipliers,
        rshift=product.right_shifts,
        offset_in_bias=bool(zero_point(result)),
        do_relu=op.do_relu and not zero_point(result),
        relu_limit=op.relu_limit,
        **QDM,
    )
    return build(lowered, operands, result)


def _corrected_average(node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Value:
    """In bf16: a byte that is rounded before it is multiplied would be off by several steps."""
    correction, result = _correction(node), node.quantised_result_type()
    assert correction is not None
    steps = steps_by_table(node.operands[0], 1.0 / result.uniform.scale, f"{node.name}_steps", build)
    value, op = pad_apart(steps, _whole(node), 0.0, node.name, build)
    pool = dataclasses.replace(pool2d(op, "Avg"), do_relu=False, relu_limit=-1.0)
    wide = result.with_element(BF16).at(None)
    value = build(pool, [value], wide, f"{node.name}_counted")
    taps = op.kernel_shape[0] * op.kernel_shape[1]
    factors = build.weight("correction_bf16", as_bf16(correction / (taps * bf16(1 / taps))), "bf16")
    limit = node.op.relu_limit / result.uniform.scale if node.op.relu_limit > 0 else -1.0
    product = tpu.Mul(do_relu=node.op.do_relu, relu_limit=limit)
    return stored_steps(build(product, [value, factors], wide, f"{node.name}_corrected"), result, node.name, build)


@TABLE.lowers(top.AvgPool, "int8")
class AvgPoolInt8(Lowering[top.AvgPool]):
    """sum * multiplier >> shift with Sx / (Sy * window) as an unsigned byte; the sign of the operand stays.

    The result's scale is the nearest one that a byte says exactly: averages are sums of many values, which the same
    error in all of them would leave. Where padding does not count, the result times bytes per place. Planes that a
    lane does not hold are averaged in bf16, in strips. Where the network itself states the scales, the average is a
    convolution with filters of ones, whose multiplier has 31 bits; bf16 where padding does not count.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return _is_product(node) or _is_corrected(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS if strip_count(node, WIDEST_BYTES) > 1 else Wants.MODE,)

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    @with_relu_apart
    def lower(self, node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        source = node.operands[0].tensor
        if _is_product(node):
            return [product_of_ones(node, build, op.kernel_shape[0] * op.kernel_shape[1])]
        if _is_corrected(node):
            return [_corrected_average(node, build)]
        if strip_count(node, WIDEST_BYTES) > 1:
            value = Bf16Composer(node, build).operand()
            return AvgPoolBf16().lower(dataclasses.replace(node, mode="bf16", operands=(value,)), build)
        result = result_with_sign(node, unsigned=source.storage.is_unsigned)
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        factor = source.uniform.scale / (result.uniform.scale * taps)
        multiplier, shift = short_factor(factor, _FACTOR_LIMIT)
        correction = _correction(node)
        exact = result
        if correction is not None or may_move_scale(node):
            exact = with_scale(result, source.uniform.scale / (math.ldexp(multiplier, -shift) * taps))
        value, op = pad_apart(node.operands[0], _whole(node), 0.0, node.name, build)
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
