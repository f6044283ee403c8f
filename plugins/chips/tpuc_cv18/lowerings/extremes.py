"""Elementwise maximum and minimum of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Op, Value, numpy_dtype
from tpuc_chip_parts.lowering import result_with_sign
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import Rounding, quantize_float

from tpuc_cv18.lowerings.common import bf16_operands, rescaled
from tpuc_cv18.lowerings.table import TABLE


def _tpu(op: top.Max | top.Min) -> Op:
    return tpu.Max() if isinstance(op, top.Max) else tpu.Min()


class _Extreme(Lowering[Any]):
    """Base of maximum and minimum in both modes."""

    def refuse(self, node: LoweringNode) -> str | None:
        if all(constant is not None for constant in node.constants):
            return "all operands are constants; fold the op"
        return None


def _computed_first(node: LoweringNode, values: Sequence[Value]) -> list[Value]:
    """Reorder the values: the first operand's type determines the op's element type."""
    pairs = list(zip(node.constants, values, strict=True))
    return [value for constant, value in pairs if constant is None] + [
        value for constant, value in pairs if constant is not None
    ]


@TABLE.lowers(top.Max, "bf16")
@TABLE.lowers(top.Min, "bf16")
class ExtremeBf16(_Extreme):
    """Exact maximum or minimum in bf16."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(_tpu(node.op), _computed_first(node, bf16_operands(node, build)), node.float_result_type())]


@TABLE.lowers(top.Max, "int8")
@TABLE.lowers(top.Min, "int8")
class ExtremeInt8(_Extreme):
    """Maximum or minimum of operands rescaled to the result's scale."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        unsigned = all(
            value.tensor.storage.is_unsigned if constant is None else bool((constant >= 0).all())
            for value, constant in zip(node.operands, node.constants, strict=True)
        )
        result = result_with_sign(node, unsigned=unsigned)
        values: list[Value] = []
        for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
            if constant is None:
                values.append(rescaled(value, result, f"{node.name}_operand{index}", build))
                continue
            dtype = numpy_dtype(result.storage)
            stored = quantize_float(constant, result.uniform.scale, 0, Rounding.HALF_AWAY_FROM_ZERO, dtype)
            values.append(build.weight(f"operand{index}_i8", stored, "ui8" if unsigned else "si8"))
        return [build(_tpu(node.op), _computed_first(node, values), result)]
