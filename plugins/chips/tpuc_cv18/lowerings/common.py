"""Helpers of lowerings: constants as bytes or bf16, results with a chosen sign or scale."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tpuc.api import (
    BF16,
    ElementType,
    LoweringBuilder,
    LoweringNode,
    TensorType,
    Uniform,
    UniformPerAxis,
    Value,
    numpy_dtype,
)
from tpuc_chip_parts.held import held
from tpuc_chip_parts.lowering import STEPS, is_stated
from tpuc_ops import top, tpu
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import Rounding, decompose_frexp31, quantize_float

MAX_SHIFT = 31
MANTISSA_BITS = 31
"""Bits of the multipliers that requantize in two steps (QDM)."""
QDM: Mapping[str, Any] = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}

_FEWEST_BITS = 16
_JOINS = (top.Concat, top.Max, top.Min)


def bf16(value: float) -> float:
    """The nearest bf16 number; overflow and infinity saturate at the largest number of their sign."""
    return float(_narrowed(np.asarray(value, np.float64)))


def bf16_operands(node: LoweringNode, build: LoweringBuilder) -> list[Value]:
    """The operands, with constants as bf16."""
    return [
        value if constant is None else build.weight(f"operand{index}_bf16", as_bf16(constant), "bf16")
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
    ]


def as_bf16(array: Array) -> Array:
    """Round to bf16 half to even, saturating at the largest number; returns the bits as stored in files."""
    return _narrowed(array).view(np.uint16)


def _narrowed(array: Array) -> Array:
    return held(array, BF16, has_infinity=False)


def may_move_scale(node: LoweringNode) -> bool:
    """True when the result's scale may differ slightly from calibration. Joins copy operands that have their scale, and
    prequantized networks define theirs.
    """
    return not is_stated(node) and not any(isinstance(user, _JOINS) for user in node.users)


def scales_of(element: ElementType) -> Array:
    """The scale of quantized values, or the scales of their channels, as float64."""
    if isinstance(element, UniformPerAxis):
        return np.asarray(element.scales, np.float64)
    assert isinstance(element, Uniform), "stored integers have a scale"
    return np.asarray([element.scale], np.float64)


def with_scale(type: TensorType, scale: float) -> TensorType:
    """The quantized type with another scale, such as one that a short multiplier represents exactly."""
    return type.with_element(dataclasses.replace(type.uniform, scale=scale))


def decompose_qdm(factor: float) -> tuple[int, int]:
    """Multiplier and shift of `multiplier / 2**(31 + shift)` for a factor below 1; raises ValueError for others.

    The chip rounds after the 31 bits and again after the shift, the second time half away from 0, so a small shift
    would add a bias. None is needed while the multiplier keeps enough bits.
    """
    if factor >= 1.0:
        raise ValueError(f"a factor of {factor:g} is too large: requantization in two steps needs a factor below 1")
    multiplier = round(math.ldexp(factor, MANTISSA_BITS))
    if multiplier >> _FEWEST_BITS - 1:
        return min(multiplier, (1 << MANTISSA_BITS) - 1), 0
    multiplier, places = decompose_frexp31(max(factor, 2.0**-MANTISSA_BITS))
    return multiplier, places - MANTISSA_BITS


def short_factor(factor: float, limit: int) -> tuple[int, int]:
    """The nearest multiplier up to `limit`, and its right shift."""
    shift = min(max(0, math.floor(math.log2((limit + 0.5) / factor))), MAX_SHIFT)
    return min(max(1, round(math.ldexp(factor, shift))), limit), shift


def rescaled(value: Value, wanted: TensorType, name: str, build: LoweringBuilder) -> Value:
    """Stored integers rescaled to the element of `wanted`: by the largest byte and a 31-bit multiplier, unchanged where
    both elements are equal, or by a table where the factor exceeds the largest byte.
    """
    source = value.tensor
    if source.element == wanted.element:
        return value
    unsigned = wanted.storage.is_unsigned
    dtype, element = (np.uint8, "ui8") if unsigned else (np.int8, "si8")
    largest = np.full((1,) * len(source.dims), 255 if unsigned else STEPS, dtype)
    factor = source.uniform.scale / (wanted.uniform.scale * float(largest.item()))
    if factor >= 1.0:
        every = np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage))
        real = every.astype(np.float64) * source.uniform.scale
        entries = quantize_float(real, wanted.uniform.scale, 0, Rounding.HALF_AWAY_FROM_ZERO, dtype)
        table = build.weight(f"{name}_table", entries.reshape(1, 1, 1, 256), element)
        return build(tpu.Lut(), [value, table], source.with_element(wanted.element).at(None), name)
    multiplier, shift = decompose_qdm(factor)
    op = tpu.Mul(multiplier=multiplier, rshift=shift, **QDM)
    return build(
        op,
        [value, build.weight(f"{name}_number", largest, element)],
        source.with_element(wanted.element).at(None),
        name,
    )
