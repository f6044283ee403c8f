"""Add tensors of a prequantized network, as a convolution over the channels of all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, ScalarType, Uniform, Value
from tpuc_chip_parts.lowering import STEPS, is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.arrangement import repeated
from tpuc_cv18.lowerings.common import QDM, Array, decompose_qdm

_USUAL_COPIES, _MOST_COPIES = 4, 15
"""Copies of rows: the number for sums with usual scales, and the limit of windows and strides."""
_NEAR = 2.0**-10
_REACH = 128
"""Distance in steps from their zero points within which most integers lie."""


def is_product(node: LoweringNode[top.Add | top.Sub]) -> bool:
    """True for a sum of computed tensors in a prequantized network; they may broadcast."""
    op, types = node.op, node.operand_types
    plain = len(types) > 1 and all(constant is None for constant in node.constants)
    if not plain or not is_stated(node) or any(factor != 1.0 for factor in op.coeff or ()):
        return False
    if len(node.result_type.dims) < 2 or not all(type_.is_quantized for type_ in types):
        return False
    return _least([type_.uniform for type_ in types], node.result_type.uniform) <= _MOST_COPIES * STEPS


def sum_as_product(node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Value:
    """`f * (a * x + b * y + ...)` with integers a, b, ... and a 31-bit factor f, as a convolution over the channels of
    all operands. Rows are duplicated in local memory so that a, b, ... become sums of bytes. Many channels are viewed
    as fewer channels with more rows, because a convolution multiplies each with every other. Operands that broadcast
    are copied first.
    """
    dims = node.result_type.dims
    assert node.chip is not None
    lanes = node.chip.lanes
    group = math.gcd(dims[1], lanes) if dims[1] > lanes else dims[1]
    image = (dims[0], group, dims[1] // group * math.prod(dims[2:-1]), dims[-1] if len(dims) > 2 else 1)
    values = [
        _broadcast(value, dims, f"{node.name}_whole{index}", build)
        for index, value in enumerate(_of_one_sign(node, build))
    ]
    parts = [_shaped(value, image, f"{node.name}_part{index}", build) for index, value in enumerate(values)]
    elements = [value.tensor.uniform for value in parts]
    result = node.quantized_result_type()
    signs = (1,) * len(parts) if isinstance(node.op, top.Add) else (-1, 1) if node.op.is_reverse else (1, -1)
    factors = nearest_factors(elements, result.uniform)
    count = max(map(_byte_count, factors.whole))
    whole = (image[0], len(parts) * group, *image[2:])
    plain = parts[0].tensor.with_shape(whole).with_element(dataclasses.replace(elements[0], zero_point=0)).at(None)
    joined = build(tpu.Concat(axis=1), parts, plain, f"{node.name}_all")
    if count > 1:
        rows = plain.with_shape((*whole[:2], whole[2] * count, whole[3]))
        joined = build(tpu.Upsample(scale_h=count, scale_w=1), [joined], rows, f"{node.name}_again")
    own = np.array([_bytes(sign * factor, count) for sign, factor in zip(signs, factors.whole, strict=True)], np.int8)
    filters = np.eye(group, dtype=np.int8)[:, None, :, None] * own[:, None, :]
    points = sum(sign * f * one.zero_point for sign, f, one in zip(signs, factors.whole, elements, strict=True))
    bias: Array = np.full((1, group, 1, 1), round(result.uniform.zero_point / factors.unit) - points, np.int32)
    multiplier, shift = decompose_qdm(factors.unit)
    operands = [
        joined,
        build.weight("filter_i8", filters.reshape(group, -1, count, 1), "si8"),
        build.weight("bias_i32", bias),
    ]
    op = tpu.Conv2D(
        kernel_shape=(count, 1),
        strides=(count, 1),
        multiplier=(multiplier,) * group,
        rshift=(shift,) * group,
        offset_in_bias=bool(zero_point(result)),
        do_relu=node.op.do_relu and not zero_point(result),
        relu_limit=node.op.relu_limit,
        **QDM,
    )
    if image == dims:
        return build(op, operands, result)
    value = build(op, operands, result.with_shape(image), f"{node.name}_sum")
    return build(tpu.Reshape(shape=dims), [value], result)


def _broadcast(value: Value, dims: Sequence[int], name: str, build: LoweringBuilder) -> Value:
    """The operand with the extents of the result, as copies of itself where these are larger."""
    own = (*(1,) * (len(dims) - len(value.tensor.dims)), *value.tensor.dims)
    counts = [whole // extent for whole, extent in zip(dims, own, strict=True)]
    aligned = _shaped(value, own, f"{name}_aligned", build)
    return aligned if own == tuple(dims) else repeated(aligned, counts, name, build)


def _of_one_sign(node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Sequence[Value]:
    """The operands; a signed one beside an unsigned one as unsigned bytes, whose zero point is 128 higher."""
    if len({value.tensor.storage for value in node.operands}) == 1:
        return node.operands
    every = np.arange(256, dtype=np.uint8)
    values = list(node.operands)
    for index, value in enumerate(values):
        if not value.tensor.storage.is_unsigned:
            own = value.tensor.uniform
            element = Uniform(ScalarType("u8"), own.expressed, own.scale, own.zero_point + 128)
            table = build.weight(f"unsigned{index}_table", (every ^ 0x80).reshape(1, 1, 1, 256), "ui8")
            type_ = value.tensor.with_element(element).at(None)
            values[index] = build(tpu.Lut(), [value, table], type_, f"{node.name}_unsigned{index}")
    return values


@dataclass(frozen=True)
class Factors:
    """`whole` numbers that the operands are multiplied by, and `unit`, the value of 1 of their sum in steps of the
    result. `error`: the largest error of the sum, in those steps.
    """

    whole: tuple[int, ...]
    unit: float
    error: float


def nearest_factors(elements: Sequence[Uniform], result: Uniform) -> Factors:
    """The factors with the fewest bytes that represent the scales, and the zero point in the bias, to a thousandth of a
    step. If there are none, the nearest factors of up to four bytes each, or of as many as results with a small
    scale need.
    """
    best: Factors | None = None
    least = _least(elements, result)
    for largest in range(least, max(_USUAL_COPIES, _byte_count(least)) * STEPS + 1):
        if best is not None and best.error <= _NEAR and largest % STEPS == 1:
            break
        one = _factors(elements, result, largest)
        if best is None or one.error < best.error:
            best = one
    assert best is not None
    return best


def _least(elements: Sequence[Uniform], result: Uniform) -> int:
    """The smallest factor of the operand with the largest scale for which 1 is less than a step of the result; results
    with a smaller scale than their operands clip.
    """
    return math.floor(max(one.scale for one in elements) / result.scale) + 1


def _factors(elements: Sequence[Uniform], result: Uniform, largest: int) -> Factors:
    """The factors when `largest` multiplies the operand with the largest scale."""
    scales = [one.scale for one in elements]
    unit = max(scales) / result.scale / largest
    whole = tuple(round(largest * scale / max(scales)) for scale in scales)
    point = round(result.zero_point / unit) * unit - result.zero_point
    off = sum(abs(factor * unit - scale / result.scale) for factor, scale in zip(whole, scales, strict=True))
    return Factors(whole, unit, off * _REACH + abs(point))


def _byte_count(factor: int) -> int:
    """Number of signed bytes that add up to a factor."""
    return max(1, -(-factor // STEPS))


def _bytes(factor: int, count: int) -> list[int]:
    """Split a factor into `count` bytes that are as equal as possible."""
    return [(factor + index) // count for index in range(count)]


def _shaped(value: Value, dims: Sequence[int], name: str, build: LoweringBuilder) -> Value:
    type_ = value.tensor
    if type_.dims == tuple(dims):
        return value
    return build(tpu.Reshape(shape=tuple(dims)), [value], type_.with_shape(tuple(dims)).at(None), name)
