"""Elementwise maximum and minimum of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value, numpy_dtype
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import Rounding, quantize_float

from tpuc_bm1684x.lowerings.common import ALL, decompose_rescale, float_operands
from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(top.Max, *ALL)
@TABLE.lowers(top.Min, *ALL)
class ExtremeAny(Lowering[Any]):
    """Rescales integers to the result's scale, then combines stored values pairwise."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        quantized = any(value.tensor.is_quantized for value in node.operands)
        type_ = node.quantized_result_type() if quantized else node.float_result_type()
        values = _rescaled(node, type_, build) if quantized else float_operands(node, build)
        op: Op = tpu.Max() if isinstance(node.op, top.Max) else tpu.Min()
        total = values[0]
        for index, value in enumerate(values[1:], 1):
            name = node.name if index == len(values) - 1 else f"{node.name}_{index}"
            pair = op.infer((total.tensor, value.tensor))
            assert pair is not None
            total = build(op, [total, value], type_.with_shape(pair[0].dims).at(None), name)
        return [total]


def _rescaled(node: LoweringNode, type_: TensorType, build: LoweringBuilder) -> list[Value]:
    values: list[Value] = []
    uniform, dtype = type_.uniform, numpy_dtype(type_.storage)
    for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
        if constant is not None:
            rounding = Rounding.HALF_AWAY_FROM_ZERO
            stored = quantize_float(constant, uniform.scale, uniform.zero_point, rounding, dtype)
            value = build.weight(f"operand{index}_i8", stored, "ui8" if type_.storage.is_unsigned else "si8")
        elif value.tensor.element != type_.element:
            multiplier, shift = decompose_rescale(node, value.tensor, type_)
            wanted = value.tensor.with_element(type_.element).at(None)
            value = build(
                tpu.MulShift(multiplier=multiplier, rshift=shift), [value], wanted, f"{node.name}_part{index}"
            )
        values.append(value)
    return sorted(values, key=lambda value: value.is_constant)  # the first operand determines scale and zero point
