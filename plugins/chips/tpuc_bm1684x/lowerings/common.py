"""Helpers of lowerings: multipliers and shifts, and constants in bytes or in the float type of a mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, ScalarType, TensorType, Value
from tpuc_chip_parts.held import held, held_number
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import (
    Decomposition,
    decompose_search,
)

from tpuc_bm1684x.isa.target import BM1684X

FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("int8", "int8-asym")
ALL = (*FLOATS, *INTEGERS)

LOWEST_SHIFT = -7
"""Lowest right shift of an 8-bit multiplier: it shifts left by up to 7."""
decompose8 = partial(decompose_search, bits=8, lowest_shift=LOWEST_SHIFT)
"""Decompose a factor into an int8 multiplier and a shift; factors above the largest multiplier shift left."""
LARGEST_FACTOR8 = 126 << -LOWEST_SHIFT
"""The largest factor that `decompose8` represents."""
decompose16 = partial(decompose_search, bits=16, lowest_shift=LOWEST_SHIFT)
"""Like `decompose8`, with 16-bit multipliers."""
LARGEST_FACTOR16 = 32766 << -LOWEST_SHIFT


def local_memory(node: LoweringNode) -> tuple[int, int]:
    """Lanes of the node's chip and bytes of each: BM1684X's where a node names no chip, or one without lanes."""
    chip = node.chip
    if chip is None or not chip.lmem_bytes:
        return BM1684X.lanes, BM1684X.lane_bytes
    return chip.lanes, chip.lmem_bytes // chip.lanes


def lane_bytes(node: LoweringNode) -> int:
    """Local memory of a lane."""
    return local_memory(node)[1]


def has_zero_points(*types: TensorType) -> bool:
    """True when any of the types has a nonzero zero point. Such sums need more instructions and use wider
    multipliers.
    """
    return any(zero_point(type_) for type_ in types)


def needs_wide(node: LoweringNode, *types: TensorType) -> bool:
    """True when the op uses multipliers of more than 8 bits: with zero points, and in prequantized networks."""
    return is_stated(node) or has_zero_points(*types)


def decompose_rescale(node: LoweringNode, source: TensorType, result: TensorType, factor: float = 1.0) -> Decomposition:
    """Decompose `factor` * Sx / Sy for `tpu.MulShift`: 8 bits, or 32 bits if the op `needs_wide`."""
    ratio = factor * source.uniform.scale / result.uniform.scale
    return decompose_search(ratio) if needs_wide(node, source, result) else decompose8(ratio)


def decompose_together(factors: Sequence[float], limit: int) -> tuple[tuple[int, ...], int]:
    """Numerators over a common power of two, at most 2**30, whose magnitudes sum to less than `limit`. Returns them and
    the shift.
    """
    shift = 30
    while shift > -32 and sum(abs(factor) for factor in factors) * 2.0**shift >= limit - len(factors):
        shift -= 1
    return tuple(round(factor * 2.0**shift) for factor in factors), shift


def rounded(value: float, mode: str) -> float:
    """`value` rounded to the float type of `mode`."""
    return held_number(value, ScalarType(mode))


def float_weight(build: LoweringBuilder, suffix: str, array: Array, mode: str) -> Value:
    """Create a constant in the float type of a mode; files store 16-bit floats as raw integers."""
    if mode == "f32":
        return build.weight(suffix, array.astype(np.float32))
    narrow = held(np.asarray(array, np.float32), ScalarType(mode))
    return build.weight(f"{suffix}_{mode}", narrow.view(np.uint16), mode)


def float_operands(node: LoweringNode, build: LoweringBuilder) -> list[Value]:
    """The operands, with constants in the mode's float type."""
    if node.mode not in ("f16", "bf16"):
        return list(node.operands)
    return [
        value if constant is None else float_weight(build, f"operand{index}", constant, node.mode)
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
    ]


def f32_result(node: LoweringNode) -> TensorType:
    """The result type of an op that is computed in f32 in every mode."""
    assert node.chip is not None
    return node.chip.float_type(node.result_type, "f32")
