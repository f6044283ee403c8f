"""Convolutions; filters are permuted to `[oc, ic, kh, kw]`, and quantized ones keep their integers."""

from __future__ import annotations

from tpuc.api import ForeignNode, ScalarType, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top

from tpuc_tflite.building import NCHW, Arranged, Order, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, finish, images
from tpuc_tflite.importers.window import dilations_of, pads_of, strides_of

FROM_OHWI: Order = (0, 3, 1, 2)
FROM_DEPTHWISE: Order = (3, 0, 1, 2)
"""Positions of `[oc, ic, kh, kw]` in the file's filters."""


@TABLE.imports("CONV_2D")
def conv(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a convolution; filters with fewer channels than the operand imply groups."""
    shape = _filter_shape(node, build)
    channels = build.shape(node.inputs[0])[-1]
    if not shape[3] or channels % shape[3]:
        raise build.refuse(node, f"its filter has {shape[3]} channels, and its operand {channels}")
    return _conv(node, build, shape[1:3], channels // shape[3], filter_of(node, build, 1, FROM_OHWI))


@TABLE.imports("DEPTHWISE_CONV_2D")
def depthwise(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a depthwise convolution: one group per channel, with the results of a channel adjacent."""
    shape = _filter_shape(node, build)
    channels = build.shape(node.inputs[0])[-1]
    if shape[0] != 1 or not channels or shape[3] % channels:
        raise build.refuse(node, f"its filter makes {shape[3]} channels of {channels}")
    return _conv(node, build, shape[1:3], channels, filter_of(node, build, 1, FROM_DEPTHWISE))


def _conv(
    node: ForeignNode, build: TfliteBuilder, kernel: tuple[int, ...], group: int, weight: Value
) -> Value | Arranged:
    x = images(node, build)
    strides, dilations = strides_of(node, build), dilations_of(node, build)
    op = top.Conv(
        kernel_shape=kernel,
        strides=strides,
        pads=pads_of(node, build, x.tensor.dims[2:], kernel, strides, dilations),
        dilations=dilations,
        group=group,
    )
    return finish(node, build, op, [x, weight, bias_of(node, build, 2)], NCHW)


def _filter_shape(node: ForeignNode, build: TfliteBuilder) -> tuple[int, ...]:
    shape = build.shape(node.inputs[1])
    if len(shape) != 4 or len(build.shape(node.inputs[0])) != 4:
        raise build.refuse(node, "its operand and its filter must both have 4 dimensions")
    return shape


def filter_of(node: ForeignNode, build: TfliteBuilder, index: int, order: Order) -> Value:
    """Return the filter with permuted dimensions; a computed one is permuted at run time."""
    name = node.inputs[index]
    array = build.constant(name)
    if array is None:
        return build.value(name, order)
    if build.is_quantized():
        return build.quantized_weight(name, array.transpose(order), name)
    real = build.real(name)
    assert real is not None
    return build.weight(name, real.transpose(order))


def bias_of(node: ForeignNode, build: TfliteBuilder, index: int) -> Value:
    """Return the bias. With integers, its scale is the product of the other two, so its own scale is redundant."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return build.none()
    name = node.inputs[index]
    array = build.constant(name)
    if array is None:
        return build.value(name)
    if not build.is_quantized():
        real = build.real(name)
        assert real is not None
        return build.weight(name, real.reshape(-1))
    if array.dtype.name not in ("int32", "int64"):
        raise build.refuse(node, f"its bias '{name}' holds {array.dtype.name}, but its other operands are quantized")
    return build.weight(name, array.reshape(-1), ScalarType("i32" if array.dtype.name == "int32" else "i64"))


@TABLE.imports("TRANSPOSE_CONV")
def transpose_conv(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a transposed convolution; its result shape is an operand, and the part that the windows do not reach is
    appended.
    """
    shape = build.shape(node.inputs[1])
    wanted = integers(required_constant(node, build, 0, "the result's shape"))
    if len(shape) != 4 or len(wanted) != 4:
        raise build.refuse(node, "its operand and its filter must both have 4 dimensions")
    x = images(node, build, 2)
    kernel, strides = shape[1:3], strides_of(node, build)
    size, result = x.tensor.dims[2:], wanted[1:3]
    reach = [(extent - 1) * stride + taps for extent, stride, taps in zip(size, strides, kernel, strict=True)]
    same = node.attributes.get("padding", 0) == 0
    totals = [max(full - extent, 0) if same else 0 for full, extent in zip(reach, result, strict=True)]
    extra = [extent - (full - total) for extent, full, total in zip(result, reach, totals, strict=True)]
    pads = [totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2]
    for axis in (0, 1):
        if extra[axis] < 0:  # a smaller result than the windows reach: the rest is cut off
            pads[axis + 2] -= extra[axis]
            extra[axis] = 0
    op = top.Deconv(kernel_shape=kernel, strides=strides, pads=tuple(pads), output_padding=tuple(extra))
    weight = filter_of(node, build, 1, FROM_OHWI)
    return finish(node, build, op, [x, weight, bias_of(node, build, 3)], NCHW)
