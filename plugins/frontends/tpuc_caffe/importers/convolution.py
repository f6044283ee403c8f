"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops import top

from tpuc_caffe.importers.common import TABLE, Shape, arrays_of, only_bottom, pair, parameters
from tpuc_caffe.weights import TRAINABLE, Blob

DEPTHWISE = frozenset({"ConvolutionDepthwise", "DepthwiseConvolution", "DepthwiseConvolution2D"})


@TABLE.imports("Convolution", *sorted(DEPTHWISE))
def convolution(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a convolution over rows and columns. Layers that are depthwise by type need not state groups."""
    x, stated = only_bottom(node, build), parameters(node, "convolution_param")
    window = _window(node, build, x, stated)
    channels = x.tensor.dims[1]
    outputs = stated.get("num_output", channels if node.op_type in DEPTHWISE else 0)
    group = channels if node.op_type in DEPTHWISE else stated.get("group", 1)
    _check_channels(node, build, channels, outputs, group)
    kernel: Shape = window["kernel_shape"]
    filters = Blob("filter", (outputs, channels // group, *kernel), stated.get("weight_filler", TRAINABLE))
    operands = [x, *_filter_and_bias(node, build, stated, filters, outputs, by_output=True)]
    return build.build(top.Conv(group=group, **window), operands, node.outputs[0])


@TABLE.imports("Deconvolution")
def deconvolution(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a transposed convolution. TOP stores the filter by output channel, Caffe by input channel."""
    x, stated = only_bottom(node, build), parameters(node, "convolution_param")
    window = _window(node, build, x, stated)
    channels, outputs, group = x.tensor.dims[1], stated.get("num_output", 0), stated.get("group", 1)
    _check_channels(node, build, channels, outputs, group)
    kernel: Shape = window["kernel_shape"]
    filters = Blob("filter", (channels, outputs // group, *kernel), stated.get("weight_filler", TRAINABLE))
    operands = [x, *_filter_and_bias(node, build, stated, filters, outputs, by_output=False)]
    return build.build(top.Deconv(group=group, **window), operands, node.outputs[0])


def _filter_and_bias(
    node: ForeignNode, build: ImportBuilder, stated: Mapping[str, Any], filters: Blob, outputs: int, *, by_output: bool
) -> list[Value]:
    wanted = [filters]
    if stated.get("bias_term", True):
        wanted.append(Blob("bias", (outputs,), stated.get("bias_filler", {})))
    weight, *bias = arrays_of(node, *wanted)
    weight = weight if by_output else np.ascontiguousarray(weight.swapaxes(0, 1))
    values = [build.weight(f"{node.name}_0", weight)]
    values += [build.weight(f"{node.name}_1", array) for array in bias] or [build.none()]
    return values


def _window(node: ForeignNode, build: ImportBuilder, x: Value, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that both kinds share."""
    if x.tensor.rank != 4 or stated.get("axis", 1) not in (1, -3):
        raise build.refuse(node, "only images (n, c, h, w) can be convolved, over their rows and columns")
    pad = pair(stated, "pad", "pad_h", "pad_w", 0)
    dilations = stated.get("dilation", ())
    if len(dilations) > 2:
        raise build.refuse(node, f"it has {len(dilations)} dilations, for rows and columns there are at most 2")
    rows, columns = (dilations * 2)[:2] if dilations else (1, 1)
    kernel = pair(stated, "kernel_size", "kernel_h", "kernel_w", 0)
    if min(kernel) < 1:
        raise build.refuse(node, "it does not state the size of its kernel (kernel_size)")
    return {
        "kernel_shape": kernel,
        "strides": pair(stated, "stride", "stride_h", "stride_w", 1),
        "pads": (*pad, *pad),
        "dilations": (rows, columns),
    }


def _check_channels(node: ForeignNode, build: ImportBuilder, channels: int, outputs: int, group: int) -> None:
    if outputs < 1:
        raise build.refuse(node, "it does not state its output channels (num_output)")
    if group < 1 or channels % group or outputs % group:
        raise build.refuse(node, f"{channels} input and {outputs} output channels do not divide into {group} groups")
