"""Quantization: integer arithmetic shared by all ops, lowerings, and simulators, and the `quant` dialect."""

from __future__ import annotations

from tpuc.api import Dialect

DIALECT = Dialect(
    "quant",
    {
        "dcast": "tpuc_ops.quant.casts:Dequantize",
        "qcast": "tpuc_ops.quant.casts:Quantize",
        "scast": "tpuc_ops.quant.casts:StorageCast",
    },
)
