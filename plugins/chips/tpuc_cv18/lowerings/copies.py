"""Copy constants to activation memory, where moves can read them."""

from __future__ import annotations

import numpy as np
from tpuc.api import LoweringBuilder, TensorType, Value, numpy_dtype
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding, quantize_float

from tpuc_cv18.lowerings.common import Array, as_bf16


def stored_constant(constant: Array, wanted: TensorType, name: str, build: LoweringBuilder) -> Value:
    """The constant in the type of `wanted`, copied by an identity op called `name`."""
    if not wanted.is_quantized:
        weight = build.weight(f"{name}_bf16", as_bf16(constant), "bf16")
        return build(tpu.MulConst(const_val=1.0), [weight], wanted, name)
    element = "ui8" if wanted.storage.is_unsigned else "si8"
    dtype = numpy_dtype(wanted.storage)
    uniform = wanted.uniform
    stored = quantize_float(constant, uniform.scale, uniform.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype)
    every = np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 1, 1, 256)
    operands = [build.weight(f"{name}_i8", stored, element), build.weight(f"{name}_table", every, element)]
    return build(tpu.Lut(), operands, wanted, name)
