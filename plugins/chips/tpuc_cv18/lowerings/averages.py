"""Averages of integers that a network states, and what their windows see beyond the operand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tpuc.api import BF16, F32, Calibrated, LoweringBuilder, LoweringNode, Node, TensorType, Uniform, Value
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.factors import steps_by_table, stored_steps
from tpuc_cv18.lowerings.qdm import stored_qdm
from tpuc_cv18.lowerings.windows import most_stride, pad_apart

MOST_TAPS = 32
"""Rows, and columns, of a window over which averages are convolutions."""


def overhang(node: LoweringNode) -> tuple[int, int]:
    """Rows and columns that the last windows reach beyond the padding (`ceil_mode`)."""
    return node.op.window().overhang(node.operand_types[0].dims[-2:])


def whole_window(node: LoweringNode) -> Any:
    """The op with all that its windows see beyond the operand as padding that counts."""
    (upper, left, bottom, right), (below, beside) = node.op.pads, overhang(node)
    pads = (upper, left, bottom + below, right + beside)
    return dataclasses.replace(node.op, pads=pads, ceil_mode=None, count_include_pad=True)


def correction_of(node: LoweringNode) -> Array | None:
    """What averages that count all padding are multiplied by, per place; None where both are the same."""
    whole = whole_window(node)
    if not any(whole.pads) or (whole.pads == node.op.pads and node.op.count_include_pad):
        return None
    rows = TensorType((1, 1, *node.operand_types[0].dims[2:]), F32)
    places = TensorType((1, 1, *node.result_type.dims[2:]), F32)
    wanted, counted = (
        op.evaluate(Node(op, (rows,), (places,)), [np.ones(rows.dims, np.float32)])[0] for op in (node.op, whole)
    )
    return wanted / counted


def is_product(node: LoweringNode[top.AvgPool]) -> bool:
    """Is the average one of stated integers, all elements of all windows count, and commands can say the window?"""
    op = node.op
    counts = not any(op.pads) and not any(overhang(node))
    small = max(op.kernel_shape) <= MOST_TAPS and max(_strides(node)) <= most_stride(node)
    source = node.operand_types[0]
    stored = isinstance(source.element, (Calibrated, Uniform))  # of several that are stated some become calibrated
    stated = stored and (is_stated(node) or zero_point(source) != 0)
    return stated and counts and small and len(op.kernel_shape) == 2


def is_corrected(node: LoweringNode[top.AvgPool]) -> bool:
    """Is it one of integers that the network states, and padding does not count?"""
    source = node.operand_types[0]
    if len(node.op.kernel_shape) != 2 or not isinstance(source.element, (Calibrated, Uniform)):
        return False
    small = max(node.op.kernel_shape) <= MOST_TAPS and max(_strides(node)) <= most_stride(node)
    return small and (is_stated(node) or zero_point(source) != 0) and correction_of(node) is not None


def _lean(node: LoweringNode[top.AvgPool]) -> int:
    """To which side halves go: where no scale changes, runtimes round integers away from 0, else floats to even."""
    if node.op.round_mode == "HalfToEven" or node.operand_types[0].element != node.result_type.element:
        return 0
    return -1 if node.op.round_mode == "HalfDown" else 1


def _strides(node: LoweringNode[top.AvgPool]) -> tuple[int, ...]:
    """1 where there is no second place."""
    extents = (node.operand_types[0].dims[2:], node.result_type.dims[2:])
    sides = zip(*extents, node.op.kernel_shape, node.op.strides, strict=True)
    return tuple(1 if size == kernel and places == 1 else step for size, places, kernel, step in sides)


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


def corrected_average(node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Value:
    """Sums of whole numbers in bf16, which has a factor for each place: a byte that is rounded before it is multiplied
    would be off by several steps.
    """
    correction, result, source = correction_of(node), node.quantised_result_type(), node.operands[0].tensor.uniform
    assert correction is not None
    steps = steps_by_table(node.operands[0], 1.0 / source.scale, f"{node.name}_steps", build)
    value, op = pad_apart(steps, whole_window(node), 0.0, node.name, build)
    channels, taps = value.tensor.dims[1], op.kernel_shape[0] * op.kernel_shape[1]
    ones = build.weight("ones_bf16", as_bf16(np.ones((channels, 1, *op.kernel_shape))), "bf16")
    sums = tpu.Conv2D(kernel_shape=op.kernel_shape, strides=_strides(node), pads=op.pads, group=channels)
    wide = result.with_element(BF16).at(None)
    value = build(sums, [value, ones, build.none()], wide, f"{node.name}_counted")
    factors = build.weight(
        "correction_bf16", as_bf16(correction * (source.scale / result.uniform.scale / taps)), "bf16"
    )
    limit = node.op.relu_limit / result.uniform.scale if node.op.relu_limit > 0 else -1.0
    product = tpu.Mul(do_relu=node.op.do_relu, relu_limit=limit)
    return stored_steps(build(product, [value, factors], wide, f"{node.name}_corrected"), result, node.name, build)
