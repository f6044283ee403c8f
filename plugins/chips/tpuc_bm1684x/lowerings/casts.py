"""What other element types keep of values."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import BF16, F16, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops.top.cast import Cast
from tpuc_ops.tpu.cast import Cast as TpuCast
from tpuc_ops.tpu.compare_const import CompareConst
from tpuc_ops.tpu.reshape import Reshape as TpuReshape
from tpuc_ops.tpu.truncate import Truncate

from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, f32_result
from tpuc_bm1684x.lowerings.table import TABLE

_WIDE = ("FLOAT", "DOUBLE")
_NARROW = {"FLOAT16": F16, "BFLOAT16": BF16}


@TABLE.lowers(Cast, *ALL)
class CastAny(Lowering[Cast]):
    """Whole numbers in f32; wide floats are what they were, narrow ones in their own type and back."""

    def refuse(self, node: LoweringNode) -> str | None:
        to = node.op.to
        if to in _WIDE or to in _NARROW or to == "BOOL" or to.lstrip("U").startswith("INT"):
            return None
        return f"floats of 16 bits and more, whole numbers and BOOL, this one is {to}"

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        keeps = node.op.to in _WIDE or (node.op.to == "BOOL" and node.mode not in INTEGERS)
        return (Wants.AS_IS if keeps else Wants.FLOAT,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        to, (value,) = node.op.to, node.operands
        if to in _WIDE:
            return [build(TpuReshape(shape=value.tensor.dims), [value], value.tensor.at(None))]
        if to == "BOOL":
            return [build(CompareConst(mode="NotEqual", const_val=0.0), [value], value.tensor.at(None))]
        if to in _NARROW:
            narrow = build(TpuCast(), [value], value.tensor.with_element(_NARROW[to]).at(None), f"{node.name}_narrow")
            return [build(TpuCast(), [narrow], f32_result(node))]
        return [build(Truncate(to=to), [value], f32_result(node))]
