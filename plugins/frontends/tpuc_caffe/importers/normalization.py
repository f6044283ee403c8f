"""Normalization layers."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import chain
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.top.normalize import EPSILON

from tpuc_caffe.importers.common import TABLE, Parameters, arrays_of, only_bottom, parameters, stored
from tpuc_caffe.weights import Blob

ONE = {"type": "constant", "value": 1.0}


@TABLE.imports("BatchNorm")
def batch_norm(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a BatchNorm. Caffe stores sums of statistics, and their count as a third weight; some forks add scale and
    bias.
    """
    x, stated = only_bottom(node, build), parameters(node, "batch_norm_param")
    if not stated.get("use_global_stats", True):
        raise build.refuse(node, "it computes its statistics from the batch: state use_global_stats: true")
    channels = (x.tensor.dims[1],)
    wanted = [Blob("mean", channels, {}), Blob("variance", channels, ONE), Blob("count", (1,), ONE)]
    if stored(node) == 5:
        wanted += [Blob("scale", channels, ONE), Blob("bias", channels, {})]
    mean, variance, count, *affine = arrays_of(node, *wanted)
    factor = np.float32(0 if count[0] == 0 else 1 / count[0])
    operands = [build.weight(f"{node.name}_{i}", array * factor) for i, array in enumerate((mean, variance))]
    operands += [build.weight(f"{node.name}_{i}", array) for i, array in enumerate(affine, 3)]
    operands += [build.none()] * (4 - len(operands))
    return build.build(top.BatchNorm(epsilon=stated.get("eps", 1e-5)), [x, *operands], node.outputs[0])


@TABLE.imports("BN")
def bn(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import scale and bias; some forks store mean and variance after them."""
    x, stated = only_bottom(node, build), parameters(node, "bn_param")
    channels = (x.tensor.dims[1],)
    wanted = [Blob("scale", channels, ONE), Blob("bias", channels, {})]
    if stored(node) != 2 and stated.get("bn_mode", "LEARN") == "LEARN":
        wanted += [Blob("mean", channels, {}), Blob("variance", channels, ONE)]
    scale, bias, *statistics = arrays_of(node, *wanted)
    affine = [build.weight(f"{node.name}_{i}", array.reshape(-1)) for i, array in enumerate((scale, bias))]
    if not statistics:
        return build.build(top.Scale(), [x, *affine], node.outputs[0])
    moments = [build.weight(f"{node.name}_{i}", array.reshape(-1)) for i, array in enumerate(statistics, 2)]
    return build.build(top.BatchNorm(epsilon=stated.get("eps", 1e-5)), [x, *moments, *affine], node.outputs[0])


@TABLE.imports("LRN")
def lrn(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an LRN over adjacent channels, or over adjacent positions of one channel."""
    x, stated = only_bottom(node, build), parameters(node, "lrn_param")
    size = stated.get("local_size", 5)
    alpha, beta, bias = stated.get("alpha", 1.0), stated.get("beta", 0.75), stated.get("k", 1.0)
    if size < 1 or size % 2 == 0:
        raise build.refuse(node, f"local_size must be odd, this one is {size}")
    name = node.outputs[0]
    if stated.get("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        return build.build(top.LRN(size=size, alpha=alpha, beta=beta, bias=bias), [x], name)
    squares = build.build(top.Mul(), [x, x], f"{name}_squares")
    # The mean counts what lies in the padding, so that every place divides by the whole window or by what Caffe does.
    pool = top.AvgPool(kernel_shape=(size, size), pads=(size // 2,) * 4, count_include_pad=True)
    ops = [pool, top.MulConst(const_val=alpha), top.AddConst(const_val=1.0), top.Pow(exponent=-beta)]
    return build.build(top.Mul(), [x, chain(build, squares, ops, f"{name}_factor")], name)


@TABLE.imports("Normalize", "NormalizeBBox")
def normalize(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an L2 normalization, times a learned scale."""
    x = only_bottom(node, build)
    stated = parameters(node, "norm_param") or parameters(node, "normalize_bbox_param")
    is_shared = stated.get("channel_shared", True)
    across = stated.get("across_spatial", True)
    eps = stated.get("eps", EPSILON)
    (scale,) = arrays_of(
        node, Blob("scale", (1,) if is_shared else (x.tensor.dims[1],), stated.get("scale_filler", ONE))
    )
    if np.float32(eps) == np.float32(EPSILON):
        op = top.Normalize(across_spatial=across, channel_shared=is_shared)
        weight = build.weight(f"{node.name}_0", scale.reshape(1, -1, *(1,) * (x.tensor.rank - 2)))
        return build.build(op, [x, weight], node.outputs[0])
    return _normalize_by_parts(node, build, x, scale, across, eps)


def _normalize_by_parts(
    node: ForeignNode, build: ImportBuilder, x: Value, scale: Array, across: bool, eps: float
) -> Value:
    """Build a normalization with another epsilon than TOP's."""
    name = node.outputs[0]
    axes = tuple(range(1, x.tensor.rank)) if across else (1,)
    squares = build.build(top.Mul(), [x, x], f"{name}_squares")
    ops = [top.Reduce(axes=axes, mode="ReduceSum"), top.AddConst(const_val=eps), top.Sqrt()]
    quotient = build.build(top.Div(), [x, chain(build, squares, ops, f"{name}_length")], f"{name}_unit")
    if scale.size == 1:
        return build.build(top.MulConst(const_val=float(scale[0])), [quotient], name)
    return build.build(top.Scale(), [quotient, build.weight(f"{node.name}_0", scale), build.none()], name)


@TABLE.imports("MVN")
def mvn(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import mean-variance normalization: subtract the mean, and divide by the deviation plus epsilon."""
    x, stated, name = only_bottom(node, build), parameters(node, "mvn_param"), node.outputs[0]
    axes = tuple(range(1 if stated.get("across_channels", False) else 2, x.tensor.rank))
    if not axes:
        raise build.refuse(node, "its operand has no rows and columns to average")
    mean = build.build(top.Reduce(axes=axes, mode="ReduceMean"), [x], f"{name}_mean")
    is_scaled = stated.get("normalize_variance", True)
    centered = build.build(top.Sub(), [x, mean], f"{name}_centered" if is_scaled else name)
    if not is_scaled:
        return centered
    squares = build.build(top.Mul(), [centered, centered], f"{name}_squares")
    ops = [top.Reduce(axes=axes, mode="ReduceMean"), top.Sqrt(), *_epsilon(stated)]
    return build.build(top.Div(), [centered, chain(build, squares, ops, f"{name}_deviation")], name)


def _epsilon(stated: Parameters) -> list[top.AddConst]:
    return [top.AddConst(const_val=stated.get("eps", 1e-9))]
