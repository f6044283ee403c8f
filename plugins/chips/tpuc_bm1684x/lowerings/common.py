"""Numbers that several lowerings need: 8-bit multipliers, constants as bytes or in the float type of a mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import LoweringBuilder, LoweringNode, ScalarType, TensorType, Value, numpy_dtype
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import (
    Decomposition,
    Rounding,
    decompose_search,
    round_to_int,
    saturate,
)

Array: TypeAlias = npt.NDArray[Any]

FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("int8", "int8-asym")
ALL = (*FLOATS, *INTEGERS)

decompose8 = partial(decompose_search, bits=8, lowest_shift=-7)
"""An int8 multiplier with a shift, to the left for factors beyond it (SPEC 3.2)."""


def has_zero_points(*types: TensorType) -> bool:
    """Does any of the types store 0 as another integer? Such sums need more instructions and get wider multipliers."""
    return any(zero_point(type_) for type_ in types)


def decompose_rescale(source: TensorType, result: TensorType, factor: float = 1.0) -> Decomposition:
    """`factor` * Sx / Sy for `tpu.MulShift`: 8 bits without zero points, 32 bits with them (SPEC 3.2)."""
    ratio = factor * source.uniform.scale / result.uniform.scale
    return decompose_search(ratio) if has_zero_points(source, result) else decompose8(ratio)


def decompose_together(factors: Sequence[float], limit: int) -> tuple[tuple[int, ...], int]:
    """Numerators over one power of two, at most 2**30, whose magnitudes add up to less than `limit`."""
    shift = 30
    while shift > -32 and sum(abs(factor) for factor in factors) * 2.0**shift >= limit - len(factors):
        shift -= 1
    return tuple(round(factor * 2.0**shift) for factor in factors), shift


_SMALLEST = 1e-5  # thresholds below it count as it (SPEC 3.5)
_STEPS = 127
_GREATEST_SHIFT = 30


def bytes_of(constant: Array) -> tuple[Array, float, str]:
    """A constant as bytes with its scale and element type: unsigned where no value is negative."""
    unsigned = bool((constant >= 0).all())
    greatest = max(float(np.abs(constant).max(initial=0.0)), _SMALLEST)
    scale = greatest / (255 if unsigned else _STEPS)
    dtype, element = (np.uint8, "ui8") if unsigned else (np.int8, "si8")
    rounded = round_to_int(constant.astype(np.float64) / scale, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(rounded, dtype), scale, element


def quantised_constant(factors: Array) -> tuple[Array, int]:
    """Factors as int8 numerators over a common power of two: the greatest shift that keeps all within 127."""
    greatest = float(np.abs(factors).max(initial=0.0))
    shift = _GREATEST_SHIFT
    while shift > -7 and round(greatest * 2.0**shift) > _STEPS:
        shift -= 1
    numerators = round_to_int(factors.astype(np.float64) * 2.0**shift, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(numerators, np.int8), shift


def rounded(value: float, mode: str) -> float:
    """The number that an immediate of a float mode holds."""
    return float(np.float32(value).astype(numpy_dtype(ScalarType(mode))))


def float_weight(build: LoweringBuilder, suffix: str, array: Array, mode: str) -> Value:
    """A constant in the type of a float mode; files hold the narrow ones as raw 16-bit integers."""
    plain = array.astype(np.float32)
    if mode == "f32":
        return build.weight(suffix, plain)
    with np.errstate(over="ignore"):
        narrow = plain.astype(numpy_dtype(ScalarType(mode)))
    return build.weight(f"{suffix}_{mode}", narrow.view(np.uint16), mode)


def float_operands(node: LoweringNode, build: LoweringBuilder) -> list[Value]:
    """The operands, constants in the mode's own type."""
    if node.mode not in ("f16", "bf16"):
        return list(node.operands)
    return [
        value if constant is None else float_weight(build, f"operand{index}", constant, node.mode)
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
    ]


def f32_result(node: LoweringNode) -> TensorType:
    """The result of an op that is computed in f32 in every mode."""
    assert node.chip is not None
    return node.chip.float_type(node.result_type, "f32")
