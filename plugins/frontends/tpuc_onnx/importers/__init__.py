"""Importers of the standard operators into TOP, one file per family; `TABLE` holds them all."""

from __future__ import annotations

from tpuc_onnx.importers import activation, convolution, elementwise, matmul, normalisation, pooling, shape
from tpuc_onnx.importers.common import TABLE

__all__ = ["TABLE", "activation", "convolution", "elementwise", "matmul", "normalisation", "pooling", "shape"]
