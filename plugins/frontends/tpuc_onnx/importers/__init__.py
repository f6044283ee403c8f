"""Importers of the standard operators into TOP, one file per family; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_onnx.importers import (
    activation,
    arrangement,
    convolution,
    elementwise,
    functions,
    matmul,
    normalisation,
    pooling,
    reduction,
    resize,
    shape,
)
from tpuc_onnx.importers.common import TABLE

__all__ = [
    "TABLE",
    "activation",
    "arrangement",
    "convolution",
    "elementwise",
    "functions",
    "matmul",
    "normalisation",
    "pooling",
    "reduction",
    "resize",
    "shape",
]
