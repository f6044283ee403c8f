"""Elementwise addition, subtraction and multiplication of tensors, and multiplication by a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value, Wants
from tpuc_chip_parts.lowering import stored_operands
from tpuc_chip_parts.numbers import MulConstFloat
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import Decomposition, decompose_search

from tpuc_bm1684x.lowerings.chains import chained, scaled_operands
from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
    LARGEST_FACTOR16,
    decompose8,
    decompose16,
    decompose_rescale,
    decompose_together,
    needs_wide,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST_CONSTANT = 1 << 30
_LARGEST_TERM = 32000
"""Limit of a term in a 16-bit sum, with room for the rounding of terms."""
_LARGEST_MULTIPLIER = (1 << 15) - 1
"""The largest signed 16-bit immediate of AR."""
_LONGEST_SHIFT = 30
"""Longest right shift: that of `decompose_search`, so that terms need no shift that other commands lack."""


class BinaryFloat(Lowering[Any]):
    """Base of float arithmetic; constants become operands of the mode's float type."""

    def tpu(self, op: Any, last: bool = True) -> Op:
        """The TPU op with the same attributes; `last` applies the relu."""
        raise NotImplementedError

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.float_result_type()
        values = scaled_operands(node, build, result)
        return [chained(node, build, lambda last: self.tpu(node.op, last), values, result)]


class BinaryInt8(Lowering[Any]):
    """Base of integer arithmetic; a constant operand is quantized with its own scale, or keeps the network's.

    More than two operands are combined in f32, because intermediate results have no scale.
    """

    many: BinaryFloat

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.MODE if len(node.operand_types) == 2 else Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return self.lower_two(node, build) if len(node.operand_types) == 2 else self.many.lower(node, build)

    def lower_two(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        """Lower the op with two integer operands."""
        raise NotImplementedError

    def is_swapped(self, node: LoweringNode) -> bool:
        """True when the constant comes first. The TPU op takes the computed operand first, because the first operand's
        type determines the meaning of the integers.
        """
        return node.constants[0] is not None

    def operands(self, node: LoweringNode, build: LoweringBuilder) -> tuple[list[Value], list[float]]:
        """Stored operands and their scales, swapped where `is_swapped`."""
        pairs = stored_operands(node, build, with_points=True)
        if self.is_swapped(node):
            pairs.reverse()
        return [value for value, _ in pairs], [scale for _, scale in pairs]


@TABLE.lowers(top.Add, *FLOATS)
class AddFloat(BinaryFloat):
    """Sum of floats."""

    def tpu(self, op: top.Add, last: bool = True) -> Op:
        return tpu.Add(do_relu=op.do_relu and last, relu_limit=op.relu_limit)


@TABLE.lowers(top.Sub, *FLOATS)
class SubFloat(BinaryFloat):
    """Difference of floats."""

    def tpu(self, op: top.Sub, last: bool = True) -> Op:
        return tpu.Sub(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(top.Mul, *FLOATS)
class MulFloat(BinaryFloat):
    """Product of floats."""

    def tpu(self, op: top.Mul, last: bool = True) -> Op:
        return tpu.Mul(do_relu=op.do_relu and last, relu_limit=op.relu_limit)


@TABLE.lowers(top.Add, *INTEGERS)
@TABLE.lowers(top.Sub, *INTEGERS)
class SumInt8(BinaryInt8):
    """Rescales each operand by coefficient * Sx / Sy, as a 16-bit multiplier and a shift, to 16 bits with as many
    fractional bits as fit; then adds with saturation and shifts the fractional bits away.

    With zero points: wider multipliers with a common shift, so that the exact sum is rounded once.
    """

    many = AddFloat()

    def lower_two(self, node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        result = node.quantized_result_type()
        values, scales = self.operands(node, build)
        coefficients = op.coeff or (1.0,) * len(values)
        if self.is_swapped(node):
            coefficients = coefficients[::-1]
        factors = [
            coefficient * scale / result.uniform.scale for coefficient, scale in zip(coefficients, scales, strict=True)
        ]
        if needs_wide(node, *(value.tensor for value in values), result):
            multipliers, shift = decompose_together(factors, _LARGEST_CONSTANT >> 8)
            shifts = (shift,)
        else:
            # An operand step that exceeds the whole range of the result saturates it.
            bounded = [min(max(factor, -LARGEST_FACTOR16), LARGEST_FACTOR16) for factor in factors]
            pairs = [_widened(decompose16(factor)) for factor in bounded]
            multipliers, shifts = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
            if (bits := _bits_below(factors, shifts, values)) > 0:
                shifts = (*(shift - bits for shift in shifts), bits)
        lowered: Op
        if isinstance(op, top.Sub):
            lowered = tpu.Sub(
                do_relu=op.do_relu,
                relu_limit=op.relu_limit,
                is_reverse=op.is_reverse != self.is_swapped(node),
                multipliers=multipliers,
                rshifts=shifts,
            )
        else:
            lowered = tpu.Add(do_relu=op.do_relu, relu_limit=op.relu_limit, multipliers=multipliers, rshifts=shifts)
        return [build(lowered, values, result)]


def _widened(pair: Decomposition) -> Decomposition:
    """The same factor with the largest 16-bit multiplier whose shift stays within `_LONGEST_SHIFT`."""
    multiplier, shift = pair
    while multiplier and abs(multiplier) * 2 <= _LARGEST_MULTIPLIER and shift < _LONGEST_SHIFT:
        multiplier, shift = multiplier * 2, shift + 1
    return multiplier, shift


def _bits_below(factors: Sequence[float], shifts: Sequence[int], values: Sequence[Value]) -> int:
    """Number of fractional bits that all terms of a sum can keep without exceeding 16 bits and without shifting a
    product left.
    """
    largest = [255 if value.tensor.storage.is_unsigned else 128 for value in values]
    reach = max(abs(factor) * most for factor, most in zip(factors, largest, strict=True))
    return min(math.floor(math.log2(_LARGEST_TERM / reach)), *shifts) if reach else 0


@TABLE.lowers(top.Mul, *INTEGERS)
class MulInt8(BinaryInt8):
    """Rescales the product by Sx1 * Sx2 / Sy, as an 8-bit multiplier and a shift; 32 bits with zero points."""

    many = MulFloat()

    def lower_two(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantized_result_type()
        values, scales = self.operands(node, build)
        wide = needs_wide(node, *(value.tensor for value in values), result)
        multiplier, shift = (decompose_search if wide else decompose8)(math.prod(scales) / result.uniform.scale)
        op = tpu.Mul(do_relu=node.op.do_relu, relu_limit=node.op.relu_limit, multiplier=multiplier, rshift=shift)
        return [build(op, values, result)]


TABLE.lowers(top.MulConst, *FLOATS)(MulConstFloat)


@TABLE.lowers(top.MulConst, *INTEGERS)
class MulConstInt8(Lowering[top.MulConst]):
    """Rescales by constant * Sx / Sy, as a multiplier and a shift."""

    def lower(self, node: LoweringNode[top.MulConst], build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantized_result_type()
        multiplier, shift = decompose_rescale(node, node.operands[0].tensor, result, node.op.const_val)
        scale = tpu.MulShift(multiplier=multiplier, rshift=shift)
        if not node.op.do_relu:
            return [build(scale, node.operands, result)]
        scaled = build(scale, node.operands, result, f"{node.name}_scaled")
        return [build(tpu.Relu(relu_limit=node.op.relu_limit), [scaled], result)]
