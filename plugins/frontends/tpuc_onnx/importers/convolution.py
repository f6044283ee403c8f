"""Convolutions; those over one dimension become two-dimensional ones over a single row."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.deconv import Deconv

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


@TABLE.imports("ConvTranspose")
def conv_transpose(node: ForeignNode, build: ImportBuilder) -> Value:
    """TOP keeps the filter by output channel, ONNX by input channel."""
    name, filters = node.outputs[0], build.constant(node.inputs[1])
    if filters is None or filters.ndim != 4:
        raise build.refuse(node, "only two-dimensional filters that are constant are supported")
    if node.attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes:
        raise build.refuse(node, "auto_pad and output_shape are not supported: export it with explicit pads")
    window = WindowAttributes.of(node, build, filters.shape[2:])
    op = Deconv(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.attributes.get("group", 1),
        output_padding=node.attributes.get("output_padding"),
    )
    weight = build.weight(f"{node.inputs[1]}_by_output", filters.swapaxes(0, 1))
    return build.build(op, [build.value(node.inputs[0]), weight, optional_value(node, build, 2)], name)
