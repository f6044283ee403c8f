"""Convolutions; those over one dimension become two-dimensional ones over a single row."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops.top.conv import Conv

from tpuc_onnx.importers.common import TABLE, optional_value, reshape
from tpuc_onnx.importers.window import WindowAttributes, images


@TABLE.imports("Conv")
def conv(node: ForeignNode, build: ImportBuilder) -> Value:
    """The filter's own shape is the kernel shape; the attribute only repeats it."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    kernel = build.shape(node.inputs[1])[2:]
    declared = node.attributes.get("kernel_shape", kernel)
    if declared != kernel:
        raise build.refuse(node, f"kernel_shape is {list(declared)}, and the filter's is {list(kernel)}")
    window = WindowAttributes.of(node, build, kernel)
    op = Conv(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.attributes.get("group", 1),
    )
    x = build.value(node.inputs[0])
    x = reshape(build, x, images(x.tensor.dims), f"{name}_images")
    result = build.build(op, [x, _filter(node, build), optional_value(node, build, 2)], _inner(name, shape))
    return reshape(build, result, shape, name)


def _inner(name: str, shape: tuple[int, ...]) -> str:
    """The result's own name, unless a reshape follows that has to carry it."""
    return name if len(shape) == 4 else f"{name}_2d"


def _filter(node: ForeignNode, build: ImportBuilder) -> Value:
    """The filter with two spatial dimensions."""
    name = node.inputs[1]
    array = build.constant(name)
    if array is not None and array.ndim == 3:
        return build.weight(f"{name}_2d", array[:, :, None])
    value = build.value(name)
    return reshape(build, value, images(value.tensor.dims), f"{name}_2d")
