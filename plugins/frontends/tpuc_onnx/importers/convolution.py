"""Convolutions; one-dimensional ones become two-dimensional over a single row."""

from __future__ import annotations

from tpuc.api import ForeignNode, Value
from tpuc_importing.operands import optional_value, permute, reshape
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE
from tpuc_onnx.importers.volumes import conv_transpose_volume, conv_volume
from tpuc_onnx.importers.window import WindowAttributes, images, transposed_window


@TABLE.imports("Conv")
def conv(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a convolution; the filter's shape gives the kernel shape, which the attribute only repeats."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    kernel = build.shape(node.inputs[1])[2:]
    declared = node.attributes.get("kernel_shape", kernel)
    if declared != kernel:
        raise build.refuse(node, f"kernel_shape is {list(declared)}, but the filter has {list(kernel)}")
    if len(kernel) == 3:
        return conv_volume(node, build)
    window = WindowAttributes.of(node, build, kernel)
    op = top.Conv(
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
    """Return the result's own name, unless a following reshape must carry it."""
    return name if len(shape) == 4 else f"{name}_2d"


def _filter(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Return the filter with two spatial dimensions."""
    name = node.inputs[1]
    array = build.plain_constant(name)
    if array is not None and array.ndim == 3:
        return build.weight(f"{name}_2d", array[:, :, None])
    value = build.value(name)
    return reshape(build, value, images(value.tensor.dims), f"{name}_2d")


@TABLE.imports("ConvTranspose")
def conv_transpose(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a transposed convolution. TOP stores the filter by output channel, ONNX by input channel."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    kernel = build.shape(node.inputs[1])[2:]
    window, extra = transposed_window(node, build, kernel)
    if len(kernel) == 3:
        return conv_transpose_volume(node, build, window, extra)
    if len(kernel) not in (1, 2):
        raise build.refuse(node, f"filters of {len(kernel)} dimensions are not supported; use 1 to 3")
    x = build.value(node.inputs[0])
    x = reshape(build, x, images(x.tensor.dims), f"{name}_images")
    window, group = window.two_dimensional(), node.attributes.get("group", 1)
    op = top.Deconv(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=group,
        output_padding=(0, *extra)[-2:] if any(extra) else None,
    )
    operands = [x, _by_output(node, build), optional_value(node, build, 2)]
    return reshape(build, build.build(op, operands, _inner(name, shape)), shape, name)


def _by_output(node: ForeignNode, build: OnnxBuilder) -> Value:
    name = node.inputs[1]
    array = build.plain_constant(name)
    if array is not None:
        return build.weight(f"{name}_by_output", array.reshape(images(array.shape)).swapaxes(0, 1))
    value = build.value(name)
    return permute(
        build, reshape(build, value, images(value.tensor.dims), f"{name}_2d"), (1, 0, 2, 3), f"{name}_by_output"
    )


@TABLE.imports("DeformConv")
def deform_conv(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a convolution whose taps are moved by computed offsets."""
    window = WindowAttributes.any(node, build, build.shape(node.inputs[1])[2:])
    if len(window.kernel) != 2:
        raise build.refuse(node, f"it needs images, but this kernel has {len(window.kernel)} dimensions")
    op = top.DeformConv2D(
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.attributes.get("group", 1),
        deform_group=node.attributes.get("offset_group", 1),
        use_mask=len(node.inputs) > 4 and bool(node.inputs[4]),
    )
    x, weight, offset = (build.value(name) for name in node.inputs[:3])
    mask, bias = optional_value(node, build, 4), optional_value(node, build, 3)
    return build.build(op, [x, weight, offset, mask, bias], node.outputs[0])
