"""How casts between float32, bf16 and bytes are made: every rounding is an op of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import BF16, F32, Lowering, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.mul_const import MulConst

from tpuc_cv183x.lowerings.common import bf16
from tpuc_cv183x.lowerings.table import CASTS as TABLE

__all__ = ["TABLE", "CastAny", "cast"]


@TABLE.lowers(Cast, "int8", "bf16")
class CastAny(Lowering[Cast]):
    """float32 to int8 and back: one op, which the runtime computes. bf16 is what the chip converts bytes from and to:
    the scale is a bf16 product beside it. float32 to bf16 leaves out the lower half.

    The runtime does not know uint8, which takes the way over bf16: bytes of images pass it unchanged, other values lose
    no more than int8 would.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        (value,) = node.operands
        return [cast(value, node.result_type, node.name, build)]


def cast(value: Value, wanted: TensorType, name: str, build: LoweringBuilder) -> Value:
    """`value` as `wanted`; the last op is called `name`."""
    source = value.tensor
    match source.is_quantised, wanted.is_quantised:
        case False, False:
            rounding = "TowardsZero" if wanted.storage == BF16 else "HalfAwayFromZero"
            return build(Cast(round_mode=rounding), [value], wanted, name)
        case False, True if source.storage == F32 and not wanted.storage.is_unsigned:
            return build(Cast(), [value], wanted, name)
        case False, True:
            half = source.with_element(BF16).at(None)
            if source.storage == F32:
                value = build(Cast(round_mode="TowardsZero"), [value], half, f"{name}_bf16")
            factor = bf16(1.0 / wanted.uniform.scale)
            if factor != 1.0:
                value = build(MulConst(const_val=factor), [value], half, f"{name}_scaled")
            return build(Cast(with_scale=False, round_mode="HalfToEven"), [value], wanted, name)
        case True, False if wanted.storage == F32 and not source.storage.is_unsigned:
            return build(Cast(), [value], wanted, name)
        case _:
            return _dequantise(value, wanted, name, build)


def _dequantise(value: Value, wanted: TensorType, name: str, build: LoweringBuilder) -> Value:
    plain = value.tensor.shape_only().with_element(BF16)
    whole = build(Cast(with_scale=False), [value], plain, f"{name}_whole")
    factor = MulConst(const_val=bf16(value.tensor.uniform.scale))
    if wanted.storage == BF16:
        return build(factor, [whole], wanted, name)
    return build(Cast(), [build(factor, [whole], plain, f"{name}_bf16")], wanted, name)
