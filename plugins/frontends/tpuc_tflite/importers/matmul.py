"""Matrix products."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_tflite.building import Arranged, TfliteBuilder
from tpuc_tflite.graph import Shape
from tpuc_tflite.importers.common import TABLE, finish
from tpuc_tflite.importers.convolution import bias_of


@TABLE.imports("FULLY_CONNECTED")
def fully_connected(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Multiply rows of the operand by rows of the filter, which TOP stores as columns."""
    if node.attributes.get("weights_format", 0):
        raise build.refuse(node, "shuffled weights are not supported: export it with the default format")
    shape = build.shape(node.inputs[1])
    dims = build.shape(node.inputs[0])
    if len(shape) != 2 or not shape[1] or math.prod(dims) % shape[1]:
        raise build.refuse(node, f"a filter of {list(shape)} does not fit an operand of {list(dims)}")
    rows, steps = _rows(node, build, shape[1])
    weight = _columns(node, build, steps)
    operands = [rows, weight, bias_of(node, build, 2)]
    if not node.attributes.get("keep_num_dims", False) or len(dims) == 2:
        return finish(node, build, top.MatMul(), operands)
    wanted = (*dims[:-1], shape[0])
    value = finish(node, build, top.MatMul(), [rows, *operands[1:]])
    assert isinstance(value, Value)
    build.rename(value, f"{node.outputs[0]}_rows")
    return build.reshape(value, wanted, node.outputs[0])


def _rows(node: ForeignNode, build: TfliteBuilder, depth: int) -> tuple[Value, tuple[Shape, Shape] | None]:
    """Return the operand as a matrix, and, for a flattened image, how the filter must follow its order."""
    name = node.inputs[0]
    source = build.flattened(name)
    if source is not None and build.constant(node.inputs[1]) is not None:
        shape = build.shape(source)
        order = build.order(source)
        if order[0] == 0 and math.prod(shape[1:]) == depth:
            value = build.value(source, order)
            inner = tuple(axis - 1 for axis in order[1:])
            return build.reshape(value, (shape[0], depth), f"{name}_chw"), (shape[1:], inner)
    value = build.value(name)
    return build.reshape(value, (math.prod(value.tensor.dims) // depth, depth), f"{name}_rows"), None


def _columns(node: ForeignNode, build: TfliteBuilder, steps: tuple[Shape, Shape] | None) -> Value:
    """Transpose the filter from `[outputs, inputs]` to `[inputs, outputs]`."""
    name = node.inputs[1]
    array = build.constant(name)
    if array is None:
        return build.value(name, (1, 0))
    if build.is_quantized():
        return build.quantized_weight(name, _follow(array, steps).T, name, 1)
    real = build.real(name)
    assert real is not None
    return build.weight(name, _follow(real, steps).T)


def _follow(array: Array, steps: tuple[Shape, Shape] | None) -> Array:
    """Reorder the filter's inputs to an image with permuted dimensions."""
    if steps is None:
        return array
    shape, order = steps
    grown = array.reshape(array.shape[0], *shape)
    return np.ascontiguousarray(grown.transpose(0, *(axis + 1 for axis in order))).reshape(array.shape)


@TABLE.imports("BATCH_MATMUL")
def batch_matmul(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """`adj_x` and `adj_y` exchange the last two dimensions."""
    if node.attributes.get("asymmetric_quantize_inputs", False):
        raise build.refuse(node, "operands quantized at run time are not supported")
    left, right = (build.value(node.inputs[index]) for index in (0, 1))
    for side, transposed in ((0, "adj_x"), (1, "adj_y")):
        if node.attributes.get(transposed, False):
            name = node.inputs[side]
            rank = len(build.shape(name))
            swapped = (*range(rank - 2), rank - 1, rank - 2)
            left, right = (build.value(name, swapped), right) if side == 0 else (left, build.value(name, swapped))
    return finish(node, build, top.MatMul(), [left, right, build.none()])
