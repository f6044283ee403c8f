"""What plugin authors test with: conformance classes, golden texts, strategies."""

from __future__ import annotations

from tpuc_testing.op_conformance import (
    OpConformance,
    Typed,
    f32,
    integers,
    onnx_node,
    quantized,
    quantized_element,
    uniform,
    zeros,
)

__all__ = [
    "OpConformance",
    "Typed",
    "f32",
    "integers",
    "onnx_node",
    "quantized",
    "quantized_element",
    "uniform",
    "zeros",
]
