"""Importers of the builtin operators into TOP, one file per family; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_tflite.importers import (
    activation,
    convolution,
    elementwise,
    logic,
    matmul,
    pooling,
    quantisation,
    recurrent,
    reduction,
    resize,
    shape,
)
from tpuc_tflite.importers.common import TABLE

__all__ = [
    "TABLE",
    "activation",
    "convolution",
    "elementwise",
    "logic",
    "matmul",
    "pooling",
    "quantisation",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
