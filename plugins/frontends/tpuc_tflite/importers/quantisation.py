"""Between floats and quantised integers, and from one scale to another."""

from __future__ import annotations

from tpuc.api import ForeignNode, TensorType
from tpuc_ops.quant.casts import Dequantise, Quantise

from tpuc_tflite.building import Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE


@TABLE.imports("QUANTIZE")
def quantize(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """From floats, or from integers of another scale."""
    order = build.order(node.inputs[0])
    x, entry = build.value(node.inputs[0], order), build.entry(node.outputs[0])
    if not entry.is_quantised:
        raise build.refuse(node, f"its result '{entry.name}' has no scale")
    return Arranged(build.build(Quantise(), [x], entry.name, [TensorType(x.tensor.dims, entry.element)]), order)


@TABLE.imports("DEQUANTIZE")
def dequantize(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """To floats; a computed float16 is one already."""
    order = build.order(node.inputs[0])
    x = build.value(node.inputs[0], order)
    if not x.tensor.is_quantised:
        return Arranged(x, order)
    return Arranged(build.build(Dequantise(), [x], node.outputs[0]), order)


@TABLE.imports("CAST")
def cast(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Computed tensors are floats in TOP, so only casts that keep the values are casts of nothing."""
    order = build.order(node.inputs[0])
    kinds = [build.entry(name).kind for name in (node.inputs[0], node.outputs[0])]
    floats = ("FLOAT16", "FLOAT32", "FLOAT64")
    if build.value(node.inputs[0], order).tensor.is_quantised or (kinds[0] in floats and kinds[1] not in floats):
        raise build.refuse(node, f"a cast of computed values from {kinds[0]} to {kinds[1]} is not supported")
    return Arranged(build.value(node.inputs[0], order), order)
