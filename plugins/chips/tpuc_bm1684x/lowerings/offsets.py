"""Addition and subtraction of a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import is_stated
from tpuc_chip_parts.numbers import AddConstFloat, as_sum
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import (
    FLOATS,
    INTEGERS,
    LARGEST_FACTOR8,
    decompose8,
    decompose_together,
    needs_wide,
)
from tpuc_bm1684x.lowerings.table import TABLE

_LARGEST_CONSTANT = 1 << 30

TABLE.lowers(top.AddConst, *FLOATS)(AddConstFloat)
TABLE.lowers(top.SubConst, *FLOATS)(AddConstFloat)


@TABLE.lowers(top.AddConst, *INTEGERS)
@TABLE.lowers(top.SubConst, *INTEGERS)
class AddConstInt8(Lowering[Any]):
    """Rescales by Sx / Sy as a multiplier and a shift, and adds constant / Sy in the same fixed-point format; 8-bit
    multipliers without zero points.
    """

    def lower(self, node: LoweringNode[top.AddConst | top.SubConst], build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantized_result_type()
        factor, constant = as_sum(node.op)
        multiplier, shift, stored = _fixed_point(node, factor, constant, result)
        lowered = tpu.AddConst(
            const_val=float(stored),
            multiplier=multiplier,
            rshift=shift,
            do_relu=node.op.do_relu,
            relu_limit=node.op.relu_limit,
        )
        return [build(lowered, node.operands, result)]


def _fixed_point(node: LoweringNode, factor: float, constant: float, result: TensorType) -> tuple[int, int, int]:
    """Multiplier, shift and fixed-point constant; a large constant limits the shift. Raises ValueError for a constant
    beyond the representable range.
    """
    source = node.operands[0].tensor
    wide = needs_wide(node, source, result)
    ratio, target = (number / result.uniform.scale for number in (factor * source.uniform.scale, constant))
    if not is_stated(node):
        ratio, target = _within_reach(ratio, target, wide=wide)
    if wide:
        (multiplier,), shift = decompose_together([ratio], _LARGEST_CONSTANT >> 8)
    else:
        multiplier, shift = decompose8(ratio)
    while shift > 0 and abs(target) * 2.0**shift >= _LARGEST_CONSTANT:
        shift -= 1
        multiplier = round(ratio * 2.0**shift)
    if abs(target) * 2.0**shift >= _LARGEST_CONSTANT:
        raise ValueError(f"constant {constant:g} is beyond {_LARGEST_CONSTANT} steps of the result's scale")
    return multiplier, shift, round(target * 2.0**shift)


def _within_reach(ratio: float, target: float, *, wide: bool) -> tuple[float, float]:
    """Scale both down so that multiplier and constant can represent them. The result saturates either way, except where
    the sum nearly cancels: with a result far smaller than its operand, such as zeros after a relu.
    """
    beyond = 0.0 if wide else abs(ratio) / LARGEST_FACTOR8
    excess = max(beyond, abs(target) / (_LARGEST_CONSTANT - 1), 1.0)
    return ratio / excess, target / excess
