"""Pooling; over one dimension it becomes pooling over a single row, and rounding up becomes padding."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool

from tpuc_onnx.importers.common import TABLE, reshape
from tpuc_onnx.importers.window import WindowAttributes, images


@TABLE.imports("MaxPool")
def max_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """Padding is below every value, so more of it at the end changes nothing."""
    x = _images(node, build)
    window = _ceiled(node, build, _window(node, build), x)
    op = MaxPool(kernel_shape=window.kernel, strides=window.strides, pads=window.pads)
    return _finish(node, build, op, x)


@TABLE.imports("AveragePool")
def average_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """What rounding up adds never counts; beside padding that counts, the op itself has to know which is which."""
    x, window = _images(node, build), _window(node, build)
    ceiled = _ceiled(node, build, window, x)
    counts = bool(node.attributes.get("count_include_pad", 0)) and any(window.pads)
    mixed = counts and ceiled != window
    op = AvgPool(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads if mixed else ceiled.pads,
        count_include_pad=counts,
        ceil_mode=True if mixed else None,
    )
    return _finish(node, build, op, x)


@TABLE.imports("GlobalAveragePool")
def global_average_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """One window over everything."""
    x = _images(node, build)
    return _finish(node, build, AvgPool(kernel_shape=x.tensor.dims[2:]), x)


@TABLE.imports("GlobalMaxPool")
def global_max_pool(node: ForeignNode, build: ImportBuilder) -> Value:
    """One window over everything."""
    x = _images(node, build)
    return _finish(node, build, MaxPool(kernel_shape=x.tensor.dims[2:]), x)


def _window(node: ForeignNode, build: ImportBuilder) -> WindowAttributes:
    window = WindowAttributes.of(node, build, node.attributes["kernel_shape"])
    if max(window.dilations) > 1:
        raise build.refuse(node, f"dilated pooling is not supported, dilations are {list(window.dilations)}")
    return window


def _images(node: ForeignNode, build: ImportBuilder) -> Value:
    x = build.value(node.inputs[0])
    if x.tensor.rank not in (3, 4):
        raise build.refuse(node, f"windows over {x.tensor.rank - 2} dimensions are not supported, only over 1 or 2")
    return reshape(build, x, images(x.tensor.dims), f"{node.outputs[0]}_images")


def _ceiled(node: ForeignNode, build: ImportBuilder, window: WindowAttributes, x: Value) -> WindowAttributes:
    """The window with the padding that rounding up amounts to."""
    if not node.attributes.get("ceil_mode", 0):
        return window
    return window.ceiled(x.tensor.dims[2:], images(build.shape(node.outputs[0]))[2:])


def _finish(node: ForeignNode, build: ImportBuilder, op: Op, x: Value) -> Value:
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    if len(shape) == 4:
        return build.build(op, [x], name)
    return reshape(build, build.build(op, [x], f"{name}_2d"), shape, name)
