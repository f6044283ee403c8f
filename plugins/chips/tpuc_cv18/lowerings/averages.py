"""Averages of prequantized integers, and correction for uncounted padding."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from tpuc.api import BF16, F32, Calibrated, LoweringBuilder, LoweringNode, Node, TensorType, Uniform, Value, numpy_dtype
from tpuc_chip_parts.held import held
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.factors import steps_by_table, stored_steps
from tpuc_cv18.lowerings.qdm import stored_qdm
from tpuc_cv18.lowerings.windows import most_stride, pad_apart

MOST_TAPS = 32
"""Maximum number of rows, and of columns, of a window whose average is a convolution."""
EXACT = 256
"""Whole numbers up to this one are exact in bf16."""
NEAR = 8
"""Largest distance, in steps of the operand, of a shift from the center of the result's range."""


def overhang(node: LoweringNode) -> tuple[int, int]:
    """Rows and columns by which the last windows exceed the padding (`ceil_mode`)."""
    return node.op.window().overhang(node.operand_types[0].dims[-2:])


def whole_window(node: LoweringNode) -> Any:
    """The op with everything that its windows read beyond the operand as counted padding."""
    (upper, left, bottom, right), (below, beside) = node.op.pads, overhang(node)
    pads = (upper, left, bottom + below, right + beside)
    return dataclasses.replace(node.op, pads=pads, ceil_mode=None, count_include_pad=True)


def correction_of(node: LoweringNode) -> Array | None:
    """Factor for each output position that corrects averages with all padding counted; None where none is needed."""
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
    """True for an average of prequantized integers without padding, whose window fits the command fields."""
    op = node.op
    counts = not any(op.pads) and not any(overhang(node))
    small = max(op.kernel_shape) <= MOST_TAPS and max(_strides(node)) <= most_stride(node)
    source = node.operand_types[0]
    stored = isinstance(source.element, (Calibrated, Uniform))  # some of several prequantized values become calibrated
    stated = stored and (is_stated(node) or zero_point(source) != 0)
    return stated and counts and small and len(op.kernel_shape) == 2


def is_corrected(node: LoweringNode[top.AvgPool]) -> bool:
    """True for an average of prequantized integers with uncounted padding."""
    source = node.operand_types[0]
    if len(node.op.kernel_shape) != 2 or not isinstance(source.element, (Calibrated, Uniform)):
        return False
    small = max(node.op.kernel_shape) <= MOST_TAPS and max(_strides(node)) <= most_stride(node)
    return small and (is_stated(node) or zero_point(source) != 0) and correction_of(node) is not None


def _lean(node: LoweringNode[top.AvgPool]) -> int:
    """Rounding direction of halves: without a change of scale, runtimes round integers away from 0; otherwise floats to
    even.
    """
    if node.op.round_mode == "HalfToEven" or node.operand_types[0].element != node.result_type.element:
        return 0
    return -1 if node.op.round_mode == "HalfDown" else 1


def _strides(node: LoweringNode[top.AvgPool]) -> tuple[int, ...]:
    """The strides, with 1 where there is a single output position."""
    extents = (node.operand_types[0].dims[2:], node.result_type.dims[2:])
    sides = zip(*extents, node.op.kernel_shape, node.op.strides, strict=True)
    return tuple(1 if size == kernel and places == 1 else step for size, places, kernel, step in sides)


def product_of_ones(node: LoweringNode[top.AvgPool], build: LoweringBuilder, taps: int) -> Value:
    """The window sums of an average, divided by `taps`, as a depthwise convolution."""
    op, value, result = node.op, node.operands[0], node.quantized_result_type()
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
    """Sum whole numbers in bf16, and multiply by a factor for each output position. Rounding a sum to a byte before the
    multiplication would cause errors of several steps.
    """
    correction, result, units = correction_of(node), node.quantized_result_type(), _units(node)
    assert correction is not None
    steps = steps_by_table(node.operands[0], units.scale, f"{node.name}_steps", build, units.shift)
    value, op = pad_apart(steps, whole_window(node), 0.0, node.name, build)
    channels = value.tensor.dims[1]
    ones = build.weight("ones_bf16", as_bf16(np.ones((channels, 1, *op.kernel_shape))), "bf16")
    sums = tpu.Conv2D(kernel_shape=op.kernel_shape, strides=_strides(node), pads=op.pads, group=channels)
    wide = result.with_element(BF16).at(None)
    value = build(sums, [value, ones, build.none()], wide, f"{node.name}_counted")
    factors = build.weight("correction_bf16", as_bf16(correction * units.factor), "bf16")
    limit = node.op.relu_limit / result.uniform.scale if node.op.relu_limit > 0 else -1.0
    product = tpu.Mul(do_relu=node.op.do_relu, relu_limit=limit)
    corrected = build(product, [value, factors], wide, f"{node.name}_corrected")
    return stored_steps(corrected, result, node.name, build, units.origin)


class _Units(NamedTuple):
    """Scale, shift, factor and origin: an average is `sum(real * scale + shift) * factor + origin`, in steps of the
    result.
    """

    scale: float
    shift: float
    factor: float
    origin: float


def _units(node: LoweringNode[top.AvgPool]) -> _Units:
    """Choose units in which averages are near 0, where bf16 is finest.

    Sums of the operand's own steps are exact until they are rounded once. Among the shifts near the center of the
    result's range, choose the one whose origin bf16 represents best. Where shifted bytes would exceed the range in
    which bf16 is exact, the table holds fractions of a result step instead. A relu, or padding that counts as zeros,
    rules out a shift.
    """
    source, result = node.operands[0].tensor.uniform, node.quantized_result_type()
    ratio, taps = source.scale / result.uniform.scale, node.op.kernel_shape[0] * node.op.kernel_shape[1]
    point = float(zero_point(result))
    if node.op.do_relu or node.op.count_include_pad:
        return _Units(1.0 / source.scale, 0.0, ratio / taps, point)
    middle = 128.0 if result.storage.is_unsigned else 0.0
    center = round((point - middle) / ratio)
    bits = np.iinfo(numpy_dtype(node.operands[0].tensor.storage))
    if max(abs(bits.min - source.zero_point + center), abs(bits.max - source.zero_point + center)) > EXACT - NEAR:
        return _Units(1.0 / (result.uniform.scale * taps), (point - middle) / taps, 1.0, middle)
    shifts = np.arange(center - NEAR, center + NEAR + 1)
    origins = point - shifts * ratio
    stored = held(origins.astype(np.float32), BF16)  # the chip adds it in bf16
    best = np.abs(origins - stored).argmin()
    return _Units(1.0 / source.scale, float(shifts[best]), ratio / taps, float(stored[best]))
