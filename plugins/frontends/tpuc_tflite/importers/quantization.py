"""Conversion between floats and quantized integers, and between scales."""

from __future__ import annotations

from tpuc.api import ForeignNode, TensorType
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize

from tpuc_tflite.building import Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE


@TABLE.imports("QUANTIZE")
def quantize(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Quantize floats, or requantize integers of another scale."""
    order = build.order(node.inputs[0])
    x, entry = build.value(node.inputs[0], order), build.entry(node.outputs[0])
    if not entry.is_quantized:
        raise build.refuse(node, f"its result '{entry.name}' has no scale")
    return Arranged(build.build(Quantize(), [x], entry.name, [TensorType(x.tensor.dims, entry.element)]), order)


@TABLE.imports("DEQUANTIZE")
def dequantize(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Convert to floats; a computed float16 already is one."""
    order = build.order(node.inputs[0])
    x = build.value(node.inputs[0], order)
    if not x.tensor.is_quantized:
        return Arranged(x, order)
    return Arranged(build.build(Dequantize(), [x], node.outputs[0]), order)


@TABLE.imports("CAST")
def cast(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a cast. Computed tensors are floats in TOP, so only the loss of a narrower type is computed."""
    order = build.order(node.inputs[0])
    value = build.real_value(build.value(node.inputs[0], order))
    source, target = (build.entry(name).kind for name in (node.inputs[0], node.outputs[0]))
    if target not in KINDS or source not in KINDS or build.is_quantized():
        raise build.refuse(node, f"a cast of computed values from {source} to {target} is not supported")
    if KINDS.index(source) <= KINDS.index(target):
        return Arranged(value, order)
    to = {"FLOAT32": "FLOAT", "FLOAT64": "FLOAT"}.get(target, target)
    return Arranged(build.build(top.Cast(to=to), [value], node.outputs[0]), order)


KINDS = ("BOOL", "INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT32", "FLOAT64")
"""Order of types: a cast to a later one keeps every value that float32 can hold."""
