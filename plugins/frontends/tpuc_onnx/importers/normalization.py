"""Normalization operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import optional_value, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE

PER_CHANNEL_SINCE = 21
"""Since this opset, GroupNormalization has scale and bias per channel instead of per group."""

_LRN: Mapping[str, float] = {"alpha": 0.0001, "beta": 0.75, "bias": 1.0}


@TABLE.imports("BatchNormalization")
def batch_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a BatchNormalization with fixed statistics. ONNX orders scale, bias, mean, variance; TOP mean, variance,
    scale, bias.
    """
    if node.attributes.get("training_mode", 0):
        raise build.refuse(node, "it is in training mode: export the network for inference")
    if not node.attributes.get("spatial", 1):
        raise build.refuse(node, "statistics per element are not supported; use statistics per channel (spatial = 1)")
    x, scale, bias, mean, variance = (build.value(name) for name in node.inputs[:5])
    op = top.BatchNorm(epsilon=node.attributes.get("epsilon", 1e-5))
    return build.build(op, [x, mean, variance, scale, bias], node.outputs[0])


@TABLE.imports("LayerNormalization")
def layer_normalization(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Import a LayerNormalization from `axis` on; mean and inverse deviation are computed separately if they are
    read.
    """
    x = build.value(node.inputs[0])
    axis = node.attributes.get("axis", -1) % x.tensor.rank
    eps = node.attributes.get("epsilon", 1e-5)
    op = top.LayerNorm(axis=axis, normalized_shape=x.tensor.dims[axis:], eps=eps)
    affine = [optional_value(node, build, index) for index in (1, 2)]
    result = build.build(op, [x, *affine], node.outputs[0])
    if not any(node.outputs[1:]):
        return [result]
    mean_name, deviation_name = (*node.outputs[1:], "")[:2]
    axes = tuple(range(axis, x.tensor.rank))
    prefix = node.outputs[0]
    mean = build.build(top.Reduce(axes=axes, mode="ReduceMean"), [x], mean_name or f"{prefix}_mean")
    centered = build.build(top.Sub(), [x, mean], f"{prefix}_centered")
    square = build.build(top.Mul(), [centered, centered], f"{prefix}_square")
    variance = build.build(top.Reduce(axes=axes, mode="ReduceMean"), [square], f"{prefix}_variance")
    shifted = build.build(top.AddConst(const_val=eps), [variance], f"{prefix}_shifted")
    return [result, mean, build.build(top.Rsqrt(), [shifted], deviation_name or f"{prefix}_deviation")]


@TABLE.imports("InstanceNormalization")
def instance_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a normalization per image and channel."""
    op = top.InstanceNorm(eps=node.attributes.get("epsilon", 1e-5))
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("GroupNormalization")
def group_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a GroupNormalization; scale and bias are per group up to opset 20, per channel later."""
    groups, channels = node.attributes["num_groups"], build.shape(node.inputs[0])[1]
    op = top.GroupNorm(num_groups=groups, eps=node.attributes.get("epsilon", 1e-5))
    affine = [
        _per_channel(node, build, index, channels // groups if node.version < PER_CHANNEL_SINCE else 1)
        for index in (1, 2)
    ]
    return build.build(op, [build.value(node.inputs[0]), *affine], node.outputs[0])


def _per_channel(node: ForeignNode, build: ImportBuilder, index: int, times: int) -> Value:
    name = node.inputs[index]
    array = build.constant(name)
    if times == 1:
        return build.value(name)
    if array is not None:
        return build.weight(f"{name}_channels", np.repeat(array, times))
    value = build.value(name)
    column = reshape(build, value, (*value.tensor.dims, 1), f"{name}_column")
    rows = build.build(top.Tile(tile=(1, times)), [column], f"{name}_rows")
    return reshape(build, rows, (value.tensor.size * times,), f"{name}_channels")


@TABLE.imports("RMSNormalization")
def rms_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an RMSNormalization over all dimensions from `axis` on, which are merged."""
    x, name = build.value(node.inputs[0]), node.outputs[0]
    dims = x.tensor.dims
    axis = node.attributes.get("axis", -1) % len(dims)
    size = math.prod(dims[axis:])
    op = top.RMSNorm(eps=node.attributes.get("epsilon", 1e-5))
    if axis == len(dims) - 1:
        return build.build(op, [x, build.value(node.inputs[1])], name)
    rows = reshape(build, x, (*dims[:axis], size), f"{name}_rows")
    gamma = build.value(node.inputs[1])
    if gamma.tensor.dims != dims[axis:]:
        raise build.refuse(node, f"a scale of shape {gamma.tensor.dims} does not cover {dims[axis:]}")
    flat = build.build(op, [rows, reshape(build, gamma, (size,), f"{name}_gamma")], f"{name}_flat")
    return reshape(build, flat, dims, name)


@TABLE.imports("LRN")
def lrn(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an LRN across channels."""
    attributes = {name: node.attributes.get(name, default) for name, default in _LRN.items()}
    op = top.LRN(size=node.attributes["size"], **attributes)
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("LpNormalization")
def lp_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a division by the norm; where the norm is 0, the result is the operand."""
    x, name = build.value(node.inputs[0]), node.outputs[0]
    mode = {1: "ReduceL1", 2: "ReduceL2"}[node.attributes.get("p", 2)]
    axis = node.attributes.get("axis", -1) % x.tensor.rank
    norm = build.build(top.Reduce(axes=(axis,), mode=mode), [x], f"{name}_norm")
    empty = build.build(top.CompareConst(mode="Equal", const_val=0.0), [norm], f"{name}_empty")
    divisor = build.build(top.Add(), [norm, empty], f"{name}_divisor")
    return build.build(top.Div(), [x, divisor], name)
