"""Element-wise arithmetic of two tensors, or of a tensor and a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value
from tpuc_ops.quant.arithmetic import decompose_common_shift, decompose_frexp31
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
from tpuc_ops.tpu.sub import Sub as TpuSub

from tpuc_cv183x.lowerings.common import MAX_SHIFT, bf16, bf16_operands, bytes_of, result_with_sign
from tpuc_cv183x.lowerings.qdm import MANTISSA_BITS
from tpuc_cv183x.lowerings.table import TABLE

_WIDE, _OFFSET_SHIFT = 32767, 8
"""16-bit sums, and the shift up to which 128 of its steps fit them: unsigned results of signed sums take those off."""
_LIMIT = 127


def _coefficients_refusal(node: LoweringNode) -> str | None:
    coefficients = getattr(node.op, "coeff", None) or ()
    if any(value != 1.0 for value in coefficients):
        return "coefficients other than 1 have no kernel in bf16"
    return None


class BinaryBf16(Lowering[Any]):
    """Base of plain bf16 arithmetic."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _coefficients_refusal(node)

    def tpu(self, op: Any) -> Op:
        """The TPU op with the same attributes."""
        raise NotImplementedError

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(self.tpu(node.op), bf16_operands(node, build), node.float_result_type())]


@TABLE.lowers(Add, "bf16")
class AddBf16(BinaryBf16):
    """The plain sum of two: more would be rounded in between."""

    def refuse(self, node: LoweringNode) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        return super().refuse(node)

    def tpu(self, op: Add) -> Op:
        return TpuAdd(do_relu=op.do_relu, relu_limit=op.relu_limit)


@TABLE.lowers(Sub, "bf16")
class SubBf16(BinaryBf16):
    """The plain difference."""

    def tpu(self, op: Sub) -> Op:
        return TpuSub(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)


@TABLE.lowers(Mul, "bf16")
class MulBf16(BinaryBf16):
    """The plain product."""

    def tpu(self, op: Mul) -> Op:
        return TpuMul(do_relu=op.do_relu, relu_limit=op.relu_limit)


def stored_operands(node: LoweringNode, build: LoweringBuilder) -> list[tuple[Value, float]]:
    """Operands with their scales: a constant becomes bytes with a scale of its own. Computed ones come first."""
    pairs: list[tuple[Value, float]] = []
    for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
        if constant is None:
            pairs.append((value, value.tensor.uniform.scale))
        else:
            stored, scale, element = bytes_of(constant)
            pairs.append((build.weight(f"operand{index}_i8", stored, element), scale))
    return pairs


@TABLE.lowers(Add, "int8")
@TABLE.lowers(Sub, "int8")
class SumInt8(Lowering[Any]):
    """Each operand times coefficient * Sx / Sy as a byte over one common power of two; one rounding at the end.

    The sum of products fits 16 bits where it passes through them.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Add | Sub = node.op
        result = node.quantised_result_type()
        pairs = stored_operands(node, build)
        coefficients = list(op.coeff or (1.0,) * len(pairs))
        if isinstance(op, Sub):
            coefficients[0 if op.is_reverse else 1] *= -1
        factors = [c * scale / result.uniform.scale for c, (_, scale) in zip(coefficients, pairs, strict=True)]
        multipliers, shift = _common(factors, [value.tensor for value, _ in pairs], result)
        tpu = TpuAdd(do_relu=op.do_relu, relu_limit=op.relu_limit, multipliers=multipliers, rshifts=(shift,))
        return [build(tpu, [value for value, _ in pairs], result)]


def _common(factors: Sequence[float], types: Sequence[TensorType], result: TensorType) -> tuple[tuple[int, ...], int]:
    """Multipliers and their shift (SPEC 3.3); a smaller one where the whole sum must fit 16 bits."""
    _, shift = decompose_common_shift(factors, _LIMIT)
    multipliers, shift = [round(math.ldexp(f, shift)) for f in factors], min(shift, MAX_SHIFT)
    steps = [255 if type_.storage.is_unsigned else 128 for type_ in types]
    mixed = result.storage.is_unsigned and (min(steps) < 255 or min(factors) < 0)
    wide, limit = mixed or len(factors) > 2, _OFFSET_SHIFT if result.storage.is_unsigned else MAX_SHIFT
    while wide and shift > 0 and (shift > limit or np.dot(np.abs(multipliers), steps) > _WIDE):
        shift -= 1
        multipliers = [round(math.ldexp(factor, shift)) for factor in factors]
    return tuple(multipliers), shift


@TABLE.lowers(Mul, "int8")
class MulInt8(Lowering[Mul]):
    """The product of all scales over the result's as a 31-bit multiplier and a shift."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        pairs = stored_operands(node, build)
        unsigned = all(value.tensor.storage.is_unsigned for value, _ in pairs)
        result = result_with_sign(node, unsigned=unsigned)
        factor = math.prod(scale for _, scale in pairs) / result.uniform.scale
        if factor >= 1.0:
            raise ValueError(f"the product's scale is {factor:g} times that of the result, and must be below 1 of it")
        multiplier, shift = decompose_frexp31(max(factor, 2.0**-MANTISSA_BITS))
        op = TpuMul(
            do_relu=node.op.do_relu,
            relu_limit=node.op.relu_limit,
            multiplier=multiplier,
            rshift=shift - MANTISSA_BITS,
            quant_mode="QDM",
            round_mode="HalfAwayFromZero",
        )
        return [build(op, [value for value, _ in pairs], result)]


@TABLE.lowers(MulConst, "bf16")
class MulConstBf16(Lowering[MulConst]):
    """The number is a bf16 immediate."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: MulConst = node.op
        tpu = TpuMulConst(const_val=bf16(op.const_val), do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(tpu, node.operands, node.float_result_type())]


@TABLE.lowers(AddConst, "bf16")
@TABLE.lowers(SubConst, "bf16")
class AddConstBf16(Lowering[Any]):
    """The number is a bf16 immediate; the reverse difference is a product with -1 before."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AddConst | SubConst = node.op
        result = node.float_result_type()
        values = node.operands
        constant = op.const_val
        if isinstance(op, SubConst):
            if op.is_reverse:
                values = (build(TpuMulConst(const_val=-1.0), values, result, f"{node.name}_negative"),)
            else:
                constant = -constant
        tpu = TpuAddConst(const_val=bf16(constant), do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(tpu, values, result)]
