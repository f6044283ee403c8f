"""Importers of the builtin operators into TOP, one file per family; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_tflite.importers import (
    activation,
    batches,
    convolution,
    elementwise,
    indexing,
    logic,
    matmul,
    pooling,
    quantisation,
    recurrent,
    reduction,
    refused,
    resize,
    shape,
)
from tpuc_tflite.importers.common import TABLE

__all__ = [
    "TABLE",
    "activation",
    "batches",
    "convolution",
    "elementwise",
    "indexing",
    "logic",
    "matmul",
    "pooling",
    "quantisation",
    "recurrent",
    "reduction",
    "refused",
    "resize",
    "shape",
]
