"""Pooling; over one dimension it becomes pooling over a single row, and rounding up becomes padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE
from tpuc_onnx.importers.volumes import average_pool_by_axis, is_unusual, max_pool_by_axis
from tpuc_onnx.importers.window import WindowAttributes, images


@TABLE.imports("MaxPool")
def max_pool(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import a maximum pool; padding is below every value, so more of it at the end changes nothing."""
    has_places = len(node.outputs) > 1 and bool(node.outputs[1])
    is_odd = is_unusual(node, build)
    if has_places and (is_odd or len(build.shape(node.inputs[0])) == 5):
        raise build.refuse(node, "indices of dilated windows, or over other than 1 or 2 dimensions, are not supported")
    if is_odd:
        return max_pool_by_axis(node, build)
    x = _images(node, build)
    window = _ceiled(node, build, WindowAttributes.of(node, build, node.attributes["kernel_shape"]), x)
    if has_places:
        return _with_places(node, build, x, window)
    op = top.MaxPool(kernel_shape=window.kernel, strides=window.strides, pads=window.pads)
    return _finish(node, build, op, x)


def _with_places(node: ForeignNode, build: OnnxBuilder, x: Value, window: WindowAttributes) -> Sequence[Value]:
    """Convert positions: ONNX counts them over the whole tensor, TOP within a channel."""
    name, places_name = node.outputs[:2]
    shape, (n, c, h, w) = build.shape(name), x.tensor.dims
    op = top.MaxPoolWithMask(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        by_column=bool(node.attributes.get("storage_order", 0)),
    )
    values, places = build.build_all(op, [x], [f"{name}_2d", f"{places_name}_inside"])
    starts = build.weight(f"{places_name}_starts", (np.arange(n * c) * (h * w)).reshape(n, c, 1, 1))
    total = build.build(top.Add(), [places, starts], f"{places_name}_2d")
    return [reshape(build, values, shape, name), reshape(build, total, shape, places_name)]


@TABLE.imports("AveragePool")
def average_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an average pool. The overhang from rounding up never counts; if padding counts, the op must
    distinguish both.
    """
    if is_unusual(node, build):
        return average_pool_by_axis(node, build)
    x = _images(node, build)
    window = WindowAttributes.of(node, build, node.attributes["kernel_shape"])
    ceiled = _ceiled(node, build, window, x)
    counts = bool(node.attributes.get("count_include_pad", 0)) and any(window.pads)
    mixed = counts and ceiled != window
    op = top.AvgPool(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads if mixed else ceiled.pads,
        count_include_pad=counts,
        ceil_mode=True if mixed else None,
    )
    return _finish(node, build, op, x)


@TABLE.imports("GlobalAveragePool")
def global_average_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an average over everything."""
    x = _flat(node, build)
    return _finish(node, build, top.AvgPool(kernel_shape=x.tensor.dims[2:]), x)


@TABLE.imports("GlobalMaxPool")
def global_max_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a maximum over everything."""
    x = _flat(node, build)
    return _finish(node, build, top.MaxPool(kernel_shape=x.tensor.dims[2:]), x)


def _images(node: ForeignNode, build: ImportBuilder) -> Value:
    x = build.value(node.inputs[0])
    return reshape(build, x, images(x.tensor.dims), f"{node.outputs[0]}_images")


def _flat(node: ForeignNode, build: ImportBuilder) -> Value:
    """Merge spatial dimensions to two: if all are reduced, their arrangement is irrelevant."""
    x = build.value(node.inputs[0])
    dims = x.tensor.dims
    if len(dims) <= 4:
        return _images(node, build)
    return reshape(build, x, (*dims[:2], math.prod(dims[2:-1]), dims[-1]), f"{node.outputs[0]}_images")


def _ceiled(node: ForeignNode, build: ImportBuilder, window: WindowAttributes, x: Value) -> WindowAttributes:
    """Return the window with the additional padding to which rounding up amounts."""
    if not node.attributes.get("ceil_mode", 0):
        return window
    return window.ceiled(x.tensor.dims[2:], images(build.shape(node.outputs[0]))[2:])


def _finish(node: ForeignNode, build: ImportBuilder, op: Op, x: Value) -> Value:
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    if len(shape) == x.tensor.rank:
        return build.build(op, [x], name)
    return reshape(build, build.build(op, [x], f"{name}_2d"), shape, name)
