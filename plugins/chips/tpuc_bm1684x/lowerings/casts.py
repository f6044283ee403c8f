"""Casts to other element types."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import BF16, F16, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, f32_result
from tpuc_bm1684x.lowerings.table import TABLE

_WIDE = ("FLOAT", "DOUBLE")
_NARROW = {"FLOAT16": F16, "BFLOAT16": BF16}


@TABLE.lowers(top.Cast, *ALL)
class CastAny(Lowering[top.Cast]):
    """Truncates to integer types in f32, compares with 0 for BOOL, copies for FLOAT and DOUBLE, and casts narrow floats
    to their type and back.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        to = node.op.to
        if to in _WIDE or to in _NARROW or to == "BOOL" or to.lstrip("U").startswith("INT"):
            return None
        return f"only floats of 16 bits and more, integers, and BOOL, this one is {to}"

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        keeps = node.op.to in _WIDE or (node.op.to == "BOOL" and node.mode not in INTEGERS)
        return (Wants.AS_IS if keeps else Wants.FLOAT,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        to, (value,) = node.op.to, node.operands
        if to in _WIDE:
            return [build(tpu.Reshape(shape=value.tensor.dims), [value], value.tensor.at(None))]
        if to == "BOOL":
            return [build(tpu.CompareConst(mode="NotEqual", const_val=0.0), [value], value.tensor.at(None))]
        if to in _NARROW:
            narrow = build(tpu.Cast(), [value], value.tensor.with_element(_NARROW[to]).at(None), f"{node.name}_narrow")
            return [build(tpu.Cast(), [narrow], f32_result(node))]
        return [build(tpu.Truncate(to=to), [value], f32_result(node))]
