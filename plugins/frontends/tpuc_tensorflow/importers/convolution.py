"""Convolutions, pooling, and batch normalization. Filters are `[kh, kw, ic, oc]`."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top
from tpuc_tflite.building import NCHW, Arranged, Results

from tpuc_tensorflow.importers.building import TensorflowBuilder, is_channels_first
from tpuc_tensorflow.importers.common import TABLE, padding_attributes, rows_and_columns, window_attributes


def _check_rank(node: ForeignNode, build: TensorflowBuilder, *indices: int) -> None:
    for index in indices:
        rank = len(build.shape(node.inputs[index]))
        if rank != 4:
            raise build.refuse(node, f"its operand '{node.inputs[index]}' has {rank} dimensions, but must have 4")


@TABLE.imports("Conv2D")
def conv(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a convolution; filters with fewer channels than the operand imply groups."""
    _check_rank(node, build, 0, 1)
    image = build.channels_last(node, node.inputs[0])
    weight = build.turned(node, node.inputs[1], (3, 0, 1, 2), "filter")
    made = build.through("CONV_2D", node, (image, weight), window_attributes(node, build))
    return build.in_format(node, made)


@TABLE.imports("DepthwiseConv2dNative")
def depthwise(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a depthwise convolution; the filter's last dimension is the number of results per channel."""
    _check_rank(node, build, 0, 1)
    image = build.channels_last(node, node.inputs[0])
    rows, columns, channels, multiple = build.shape(node.inputs[1])
    array = build.constant(node.inputs[1])
    shape = (1, rows, columns, channels * multiple)
    if array is not None:
        weight = build.constant_tensor(node, array.reshape(shape), "filter")
    else:
        wanted = build.constant_tensor(node, np.array(shape, np.int32), "filter/shape")
        weight = build.inner("RESHAPE", node, (node.inputs[1], wanted), "filter")
    made = build.through("DEPTHWISE_CONV_2D", node, (image, weight), window_attributes(node, build))
    return build.in_format(node, made)


@TABLE.imports("Conv2DBackpropInput")
def transposed(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a transposed convolution: the result's shape is an operand, the filter is `[kh, kw, oc, ic]`."""
    _check_rank(node, build, 1, 2)
    if rows_and_columns(node, build, "dilations") != (1, 1):
        raise build.refuse(node, "dilated transposed convolutions are not supported")
    size = integers(required_constant(node, build, 0, "the shape of the result"))
    if is_channels_first(node):
        size = tuple(size[axis] for axis in (0, 2, 3, 1)) if len(size) == 4 else size
    wanted = build.constant_tensor(node, np.array(size, np.int32), "size")
    weight = build.turned(node, node.inputs[1], (2, 0, 1, 3), "filter")
    image = build.channels_last(node, node.inputs[2])
    attributes = window_attributes(node, build)
    if "pads" in attributes:
        raise build.refuse(node, "explicit paddings of a transposed convolution are not supported")
    return build.in_format(node, build.through("TRANSPOSE_CONV", node, (wanted, weight, image), attributes))


@TABLE.imports("MaxPool", "MaxPoolV2", "AvgPool")
def pool(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import pooling; padding never counts. MaxPoolV2 has window and strides as operands."""
    _check_rank(node, build, 0)
    if node.op_type == "MaxPoolV2":
        kernel, strides = (integers(required_constant(node, build, index, "the window")) for index in (1, 2))
        attributes = {**node.attributes, "ksize": kernel, "strides": strides}
        node = ForeignNode("MaxPool", node.name, node.inputs[:1], node.outputs, attributes, source=node.source)
    kernel, strides = (rows_and_columns(node, build, name) for name in ("ksize", "strides"))
    image = build.channels_last(node, node.inputs[0])
    attributes = {
        "filter_height": kernel[0],
        "filter_width": kernel[1],
        "stride_h": strides[0],
        "stride_w": strides[1],
        **padding_attributes(node, build),
    }
    operator = "AVERAGE_POOL_2D" if node.op_type == "AvgPool" else "MAX_POOL_2D"
    return build.in_format(node, build.through(operator, node, (image,), attributes))


@TABLE.imports("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a batch normalization with fixed statistics; its other results are for training."""
    _check_rank(node, build, 0)
    if node.attributes.get("is_training", True):
        raise build.refuse(node, "it is in training mode: export the network for inference")
    gamma, beta, mean, variance = (build.value(name) for name in node.inputs[1:5])
    op = top.BatchNorm(epsilon=float(node.attributes.get("epsilon", 1e-4)))
    image = build.value(build.channels_last(node, node.inputs[0]), NCHW)
    value = build.build(op, [image, mean, variance, gamma, beta], node.outputs[0])
    result = build.in_format(node, Arranged(value, NCHW))
    return [result] if isinstance(result, (Arranged, Value)) else result


@TABLE.imports("BiasAdd")
def bias_add(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import the addition of one number per channel."""
    rank = len(build.shape(node.inputs[0]))
    if not is_channels_first(node) or rank < 3:
        return build.through("ADD", node)
    count = build.shape(node.inputs[1])[0]
    wanted = build.constant_tensor(node, np.array((count, *(1,) * (rank - 2)), np.int32), "bias/shape")
    array = build.constant(node.inputs[1])
    if array is not None:
        bias = build.constant_tensor(node, array.reshape(count, *(1,) * (rank - 2)), "bias")
    else:
        bias = build.inner("RESHAPE", node, (node.inputs[1], wanted), "bias")
    return build.through("ADD", node, (node.inputs[0], bias))


@TABLE.imports("LRN")
def local_response(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import an LRN over `depth_radius` channels on each side."""
    defaults = {"radius": ("depth_radius", 5), "bias": ("bias", 1.0), "alpha": ("alpha", 1.0), "beta": ("beta", 0.5)}
    attributes = {ours: node.attributes.get(theirs, value) for ours, (theirs, value) in defaults.items()}
    return build.through("LOCAL_RESPONSE_NORMALIZATION", node, attributes=attributes)
