"""Importers of the standard operators into TOP, one file per family; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_onnx.importers import (
    activation,
    arrangement,
    casts,
    convolution,
    einsum,
    elementwise,
    functions,
    indexing,
    logic,
    matmul,
    normalisation,
    pooling,
    quantised,
    recurrent,
    reduction,
    refused,
    resize,
    selection,
    shape,
    vision,
)
from tpuc_onnx.importers.common import TABLE

__all__ = [
    "TABLE",
    "activation",
    "arrangement",
    "casts",
    "convolution",
    "einsum",
    "elementwise",
    "functions",
    "indexing",
    "logic",
    "matmul",
    "normalisation",
    "pooling",
    "quantised",
    "recurrent",
    "reduction",
    "refused",
    "resize",
    "selection",
    "shape",
    "vision",
]
