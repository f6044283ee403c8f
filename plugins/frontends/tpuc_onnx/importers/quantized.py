"""Quantization and dequantization; stored integers are represented as floats."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.dynamic import centered_name
from tpuc_onnx.importers.common import TABLE, is_integer


@TABLE.imports("QuantizeLinear")
def quantize_linear(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import QuantizeLinear; constant parameters become attributes, while computed ones, blocks, and narrow floats
    become arithmetic.
    """
    target = _target(node, build)
    if is_integer(target):
        scale, zero = _constants(node, build)
        if scale is not None and zero is not None:
            op = top.QuantizeLinear(
                y_scale=tuple(map(float, scale)),
                y_zero_point=tuple(map(int, zero)),
                axis=_axis(node, build),
                to=target.upper(),
            )
            return build.build(op, [build.value(node.inputs[0])], node.outputs[0])
    return _quantized(node, build, target)


@TABLE.imports("DequantizeLinear")
def dequantize_linear(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import DequantizeLinear; constant parameters become attributes, computed ones and blocks become arithmetic."""
    x, name = build.value(node.inputs[0]), node.outputs[0]
    scale, zero = _constants(node, build)
    if scale is not None and zero is not None and is_integer(build.elem_type(node.inputs[0])):
        op = top.DequantizeLinear(
            x_scale=tuple(map(float, scale)),
            x_zero_point=tuple(map(int, zero)),
            axis=_axis(node, build),
            of=build.elem_type(node.inputs[0]).upper(),
        )
        return build.build(op, [x], name)
    if _has_zero(node):
        x = build.build(top.Sub(), [x, _spread(node, build, 2)], f"{name}_centered")
    return build.build(top.Mul(), [x, _spread(node, build, 1)], name)


@TABLE.imports("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: ForeignNode, build: OnnxBuilder) -> Sequence[Value]:
    """Import DynamicQuantizeLinear; products read the integers without their zero point, other readers with it."""
    name, scale, zero = (*node.outputs, "", "")[:3]
    centered = centered_name(name)
    names = [centered, scale or f"{name}_scale", zero or f"{name}_zero_point"]
    values = build.build_all(top.DynamicQuantizeLinear(), [build.value(node.inputs[0])], names)
    build.values[centered] = values[0]
    build.types.declare(centered, TensorProto.FLOAT, values[0].tensor.dims)
    return [build.build(top.Add(), [values[0], values[2]], name), *values[1:]]


def _quantized(node: ForeignNode, build: OnnxBuilder, target: str) -> Value:
    name = node.outputs[0]
    value = build.build(top.Div(), [build.value(node.inputs[0]), _spread(node, build, 1)], f"{name}_scaled")
    if not is_integer(target):
        if _has_zero(node):
            value = build.build(top.Add(), [value, _spread(node, build, 2)], f"{name}_shifted")
        op = top.Cast(to=target.upper(), saturate=bool(node.attributes.get("saturate", 1)))
        return build.build(op, [value], name)
    value = build.build(top.Round(), [value], f"{name}_rounded")
    if _has_zero(node):
        value = build.build(top.Add(), [value, _spread(node, build, 2)], f"{name}_shifted")
    span = 2.0 ** int(target.lstrip("uint"))
    low, high = (0.0, span - 1) if target.startswith("u") else (-span / 2, span / 2 - 1)
    return build.build(top.Clip(min=low, max=high), [value], name)


def _target(node: ForeignNode, build: OnnxBuilder) -> str:
    """Return the result's element type: that of the zero point, else an attribute's, else uint8."""
    if _has_zero(node):
        return build.elem_type(node.inputs[2])
    if node.attributes.get("output_dtype", 0):
        from onnx import TensorProto

        return TensorProto.DataType.Name(node.attributes["output_dtype"]).lower()
    return "uint8"


def _has_zero(node: ForeignNode) -> bool:
    return len(node.inputs) > 2 and bool(node.inputs[2])


def _axis(node: ForeignNode, build: ImportBuilder) -> int:
    return node.attributes.get("axis", 1) % max(len(build.shape(node.inputs[0])), 1)


def _constants(node: ForeignNode, build: ImportBuilder) -> tuple[Array | None, Array | None]:
    """Return scale and zero point as lists, None if they are computed or in blocks."""
    scale = build.constant(node.inputs[1])
    if scale is None or scale.ndim > 1:
        return None, None
    zero = build.constant(node.inputs[2]) if _has_zero(node) else np.zeros(scale.shape, np.int64)
    return scale.reshape(-1), None if zero is None else zero.reshape(-1)


def _spread(node: ForeignNode, build: ImportBuilder, index: int) -> Value:
    """Return a parameter that broadcasts to the operand; the numbers of blocks are repeated."""
    value, name = build.value(node.inputs[index]), f"{node.outputs[0]}_parameter{index}"
    dims, own = build.shape(node.inputs[0]), value.tensor.dims
    if math.prod(own) == 1:
        return reshape(build, value, (1,) * len(dims), name)
    axis = _axis(node, build)
    if len(own) == 1:
        return reshape(build, value, tuple(-1 if i == axis else 1 for i in range(len(dims))), name)
    if own == dims:
        return value
    size = node.attributes.get("block_size", 0) or -(-dims[axis] // own[axis])
    return _repeated(build, value, axis, size, dims, name)


def _repeated(build: ImportBuilder, value: Value, axis: int, size: int, dims: Sequence[int], name: str) -> Value:
    """Repeat every number `size` times along `axis`, cropped to `dims`."""
    own = value.tensor.dims
    column = reshape(build, value, (*own[: axis + 1], 1, *own[axis + 1 :]), f"{name}_column")
    counts = tuple(size if index == axis + 1 else 1 for index in range(len(own) + 1))
    rows = build.build(top.Tile(tile=counts), [column], f"{name}_rows")
    merged = reshape(build, rows, (*own[:axis], own[axis] * size, *own[axis + 1 :]), f"{name}_merged")
    if merged.tensor.dims == tuple(dims):
        return merged
    op = top.Slice(offset=(0,) * len(dims), steps=(1,) * len(dims), ends=tuple(dims))
    return build.build(op, [merged], name)
