"""Element-wise arithmetic of two tensors, or of a tensor and a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.tpu.add import Add as TpuAdd
from tpuc_ops.tpu.add_const import AddConst as TpuAddConst
from tpuc_ops.tpu.mul import Mul as TpuMul
from tpuc_ops.tpu.mul_const import MulConst as TpuMulConst
from tpuc_ops.tpu.mul_shift import MulShift
from tpuc_ops.tpu.relu import Relu as TpuRelu
from tpuc_ops.tpu.sub import Sub as TpuSub

from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
    bytes_of,
    decompose8,
    decompose_rescale,
    decompose_together,
    float_operands,
    has_zero_points,
    rounded,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST_CONSTANT = 1 << 30


def _two_operands(node: LoweringNode) -> str | None:
    if len(node.operand_types) != 2:
        return f"two operands, this one has {len(node.operand_types)}"
    return None


class BinaryFloat(Lowering[Any]):
    """Base of plain float arithmetic; constants become operands of the mode's own type."""

    def refuse(self, node: LoweringNode) -> str | None:
        if any(value != 1.0 for value in getattr(node.op, "coeff", None) or ()):
            return "coefficients other than 1 have no kernel"
        return _two_operands(node)

    def tpu(self, op: Any) -> Op:
        """The TPU op with the same attributes."""
        raise NotImplementedError

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(self.tpu(node.op), float_operands(node, build), node.float_result_type())]


class BinaryInt8(Lowering[Any]):
    """Base of integer arithmetic: a constant operand becomes bytes with a scale of their own."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _two_operands(node)

    def is_swapped(self, node: LoweringNode) -> bool:
        """Does the constant come first? The TPU op takes the computed operand first, whose type says what it means."""
        return node.constants[0] is not None

    def operands(self, node: LoweringNode, build: LoweringBuilder) -> tuple[list[Value], list[float]]:
        """Stored operands and their scales, swapped where `is_swapped`."""
        values: list[Value] = []
        scales: list[float] = []
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
            if constant is None:
                scale = value.tensor.uniform.scale
            else:
                stored, scale, element = bytes_of(constant)
                value = build.weight(f"operand{index}_i8", stored, element)
            values.append(value)
            scales.append(scale)
        if self.is_swapped(node):
            return values[::-1], scales[::-1]
        return values, scales


@TABLE.lowers(Add, *FLOATS)
class AddFloat(BinaryFloat):
    """The plain sum."""

    def tpu(self, op: Add) -> Op:
        return TpuAdd(do_relu=op.do_relu, relu_limit=op.relu_limit)


@TABLE.lowers(Sub, *FLOATS)
class SubFloat(BinaryFloat):
    """The plain difference."""

    def tpu(self, op: Sub) -> Op:
        return TpuSub(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(Mul, *FLOATS)
class MulFloat(BinaryFloat):
    """The plain product."""

    def tpu(self, op: Mul) -> Op:
        return TpuMul(do_relu=op.do_relu, relu_limit=op.relu_limit)


@TABLE.lowers(Add, *INTEGERS)
@TABLE.lowers(Sub, *INTEGERS)
class SumInt8(BinaryInt8):
    """Each operand times coefficient * Sx / Sy as an 8-bit multiplier and a shift, then a saturating sum.

    With zero points: wider multipliers with a common shift, so that the exact sum is rounded once.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Add | Sub = node.op
        result = node.quantised_result_type()
        values, scales = self.operands(node, build)
        coefficients = op.coeff or (1.0,) * len(values)
        if self.is_swapped(node):
            coefficients = coefficients[::-1]
        factors = [
            coefficient * scale / result.uniform.scale for coefficient, scale in zip(coefficients, scales, strict=True)
        ]
        if has_zero_points(*(value.tensor for value in values), result):
            multipliers, shift = decompose_together(factors, _LARGEST_CONSTANT >> 8)
            shifts = (shift,)
        else:
            pairs = [decompose8(factor) for factor in factors]
            multipliers, shifts = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        tpu: Op
        if isinstance(op, Sub):
            tpu = TpuSub(
                do_relu=op.do_relu,
                relu_limit=op.relu_limit,
                is_reverse=op.is_reverse != self.is_swapped(node),
                multipliers=multipliers,
                rshifts=shifts,
            )
        else:
            tpu = TpuAdd(do_relu=op.do_relu, relu_limit=op.relu_limit, multipliers=multipliers, rshifts=shifts)
        return [build(tpu, values, result)]


@TABLE.lowers(Mul, *INTEGERS)
class MulInt8(BinaryInt8):
    """The product of all scales over the result's as one 8-bit multiplier and a shift; 32 bits with zero points."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantised_result_type()
        values, scales = self.operands(node, build)
        wide = has_zero_points(*(value.tensor for value in values), result)
        multiplier, shift = (decompose_search if wide else decompose8)(math.prod(scales) / result.uniform.scale)
        op = TpuMul(do_relu=node.op.do_relu, relu_limit=node.op.relu_limit, multiplier=multiplier, rshift=shift)
        return [build(op, values, result)]


@TABLE.lowers(MulConst, *FLOATS)
class MulConstFloat(Lowering[MulConst]):
    """The number is an immediate."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: MulConst = node.op
        tpu = TpuMulConst(const_val=rounded(op.const_val, node.mode), do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(tpu, node.operands, node.float_result_type())]


@TABLE.lowers(MulConst, *INTEGERS)
class MulConstInt8(Lowering[MulConst]):
    """Number * Sx / Sy as a multiplier and a shift."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: MulConst = node.op
        result = node.quantised_result_type()
        multiplier, shift = decompose_rescale(node.operands[0].tensor, result, op.const_val)
        scale = MulShift(multiplier=multiplier, rshift=shift)
        if not op.do_relu:
            return [build(scale, node.operands, result)]
        scaled = build(scale, node.operands, result, f"{node.name}_scaled")
        return [build(TpuRelu(relu_limit=op.relu_limit), [scaled], result)]


@TABLE.lowers(AddConst, *FLOATS)
@TABLE.lowers(SubConst, *FLOATS)
class AddConstFloat(Lowering[Any]):
    """The number is an immediate; the reverse difference is a product with -1 before."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AddConst | SubConst = node.op
        factor, constant = _as_sum(op)
        result = node.float_result_type()
        values = node.operands
        if factor < 0:
            values = (build(TpuMulConst(const_val=-1.0), values, result, f"{node.name}_negative"),)
        tpu = TpuAddConst(const_val=rounded(constant, node.mode), do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(tpu, values, result)]


@TABLE.lowers(AddConst, *INTEGERS)
@TABLE.lowers(SubConst, *INTEGERS)
class AddConstInt8(Lowering[Any]):
    """Sx / Sy as a multiplier and a shift, the number over Sy in the same fixed point; 8 bits without zero points."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AddConst | SubConst = node.op
        result = node.quantised_result_type()
        factor, constant = _as_sum(op)
        multiplier, shift, stored = _fixed_point(factor, constant, node.operands[0].tensor, result)
        tpu = TpuAddConst(
            const_val=float(stored),
            multiplier=multiplier,
            rshift=shift,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
        )
        return [build(tpu, node.operands, result)]


def _as_sum(op: AddConst | SubConst) -> tuple[float, float]:
    """Factor of the operand, and the number that is added."""
    if not isinstance(op, SubConst):
        return 1.0, op.const_val
    return (-1.0, op.const_val) if op.is_reverse else (1.0, -op.const_val)


def _fixed_point(factor: float, constant: float, source: TensorType, result: TensorType) -> tuple[int, int, int]:
    """Multiplier, shift and the number, which limits the shift when it is large."""
    ratio = factor * source.uniform.scale / result.uniform.scale
    if has_zero_points(source, result):
        (multiplier,), shift = decompose_together([ratio], _LARGEST_CONSTANT >> 8)
    else:
        multiplier, shift = decompose8(ratio)
    target = constant / result.uniform.scale
    while shift > 0 and abs(target) * 2.0**shift >= _LARGEST_CONSTANT:
        shift -= 1
        multiplier = round(ratio * 2.0**shift)
    if abs(target) * 2.0**shift >= _LARGEST_CONSTANT:
        raise ValueError(f"constant {constant:g} is beyond {_LARGEST_CONSTANT} steps of the result's scale")
    return multiplier, shift, round(target * 2.0**shift)
