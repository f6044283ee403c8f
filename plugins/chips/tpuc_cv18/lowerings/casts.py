"""Casts between float32, bf16 and bytes, each as one op."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import BF16, F32, Lowering, LoweringBuilder, LoweringNode, TensorType, Value, numpy_dtype
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import dequantize

from tpuc_cv18.lowerings.common import as_bf16
from tpuc_cv18.lowerings.table import CASTS as TABLE

__all__ = ["TABLE", "CastAny", "cast"]


@TABLE.lowers(tpu.Cast, "int8", "bf16")
class CastAny(Lowering[tpu.Cast]):
    """The runtime casts float32 to int8 and back. The chip does all other casts: between bf16 and bytes with a bf16
    factor for the scale, and float32 to bf16 rounding half away from zero.

    The runtime does not support uint8. Image bytes pass through bf16 unchanged, also as fractions of 255; other values
    lose no more precision than with int8. Integers with a zero point, and prequantized integers (whose cast rounds half
    to even), are converted to bf16 by a table, because the chip would multiply by a rounded scale.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        (value,) = node.operands
        nearest = node.op.round_mode == "HalfToEven" and value.tensor.is_quantized
        return [cast(value, node.result_type, node.name, build, nearest=nearest)]


def cast(value: Value, wanted: TensorType, name: str, build: LoweringBuilder, *, nearest: bool = False) -> Value:
    """Convert `value` to `wanted` by an op called `name`. With `nearest`, integers become the nearest floats."""
    source = value.tensor
    bounded = _is_picture(value)
    if not source.is_quantized and not wanted.is_quantized:
        return build(tpu.Cast(round_half=wanted.storage == BF16, is_bounded=bounded), [value], wanted, name)
    if source.is_quantized and (zero_point(source) or (nearest and not _is_of_runtime(source, wanted))):
        table = dequantize(
            np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage)),
            source.uniform.scale,
            source.uniform.zero_point,
        )
        half = wanted.with_element(BF16)
        last = wanted.storage == BF16
        operands = [value, build.weight(f"{name}_bf16", as_bf16(table.reshape(1, 1, 1, 256)), "bf16")]
        value = build(tpu.Lut(), operands, half, name if last else f"{name}_half")
        return value if last else cast(value, wanted, name, build)
    stored, plain = (source, wanted) if source.is_quantized else (wanted, source)
    if _is_of_runtime(stored, plain):
        return build(tpu.Cast(), [value], wanted, name)
    rounds = source.storage == F32
    op = tpu.Cast(in_half=True, round_mode="HalfToEven", round_half=rounds, is_bounded=bounded)
    return build(op, [value], wanted, name)


def _is_picture(value: Value) -> bool:
    """True for an input of scaled bytes."""
    op = value.defining and value.defining.op
    return isinstance(op, top.Input) and bool(op.do_preprocess)


def _is_of_runtime(stored: TensorType, plain: TensorType) -> bool:
    """True when the runtime casts between these integers and floats."""
    return plain.storage == F32 and not stored.storage.is_unsigned
