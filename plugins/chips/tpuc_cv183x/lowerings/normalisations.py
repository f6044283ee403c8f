"""Normalisations, in bf16 in every mode: differences, means and roots of rows that are planes of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.lowering import ConstantWeights
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.normalize import EPSILON

from tpuc_cv183x.lowerings.common import Array, as_bf16
from tpuc_cv183x.lowerings.halves import Halves
from tpuc_cv183x.lowerings.table import TABLE


class Normalisation(ConstantWeights):
    """Base: in bf16, with constant weights."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)


def _normalised(steps: Halves, value: Value, rows: int, eps: float, *, centred: bool) -> Value:
    """``(x - mean) / sqrt(variance + eps)`` of every row, or without the mean, as planes `[1, rows, a, b]`."""
    value = steps.planes(value, rows)
    _, _, *kernel = value.tensor.dims
    whole = (kernel[0], kernel[1])
    if centred:
        # The mean is rounded as the values are: what is left of it goes in a second step.
        for _ in range(2):
            value = steps.do(tpu.Sub(), [value, steps.pooled(value, "Avg", whole)])
    variance = steps.pooled(steps.function("SQUARE", value), "Avg", whole)
    return steps.do(tpu.Mul(), [value, steps.function("RSQRT", steps.plus(variance, eps))])


def _affine(steps: Halves, value: Value, weight: Array | None, bias: Array | None) -> Value:
    if weight is not None:
        value = steps.do(tpu.Mul(), [value, steps.constant(weight)])
    if bias is not None:
        value = steps.do(tpu.Add(), [value, steps.constant(bias)])
    return value


@TABLE.lowers(top.LayerNorm, "bf16", "int8")
@TABLE.lowers(top.RMSNorm, "bf16", "int8")
class LastDimensions(Normalisation):
    """Over the last dimensions."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.LayerNorm | top.RMSNorm = node.op
        steps, dims = Halves(node, build), node.result_type.dims
        start = positive_axis(op.axis, len(dims)) if isinstance(op, top.LayerNorm) else len(dims) - 1
        rows = math.prod(dims[:start])
        value = _normalised(steps, steps.operand(), rows, op.eps, centred=isinstance(op, top.LayerNorm))
        shape = (1, 1, *value.tensor.dims[2:])
        weight, bias = (None if part is None else part.reshape(shape) for part in self.constants(node))
        return steps.last(_affine(steps, value, weight, bias))


@TABLE.lowers(top.InstanceNorm, "bf16", "int8")
@TABLE.lowers(top.GroupNorm, "bf16", "int8")
class PerChannel(Normalisation):
    """Over groups of channels, seen as rows; weight and bias are per channel."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.InstanceNorm | top.GroupNorm = node.op
        steps, dims = Halves(node, build), node.result_type.dims
        groups = op.num_groups if isinstance(op, top.GroupNorm) else dims[1]
        value = _normalised(steps, steps.operand(), dims[0] * groups, op.eps, centred=True)
        value = steps.reshape(value, (dims[0], dims[1], 1, math.prod(dims[2:])))
        weight, bias = (None if part is None else part.reshape(1, -1, 1, 1) for part in self.constants(node))
        return steps.last(_affine(steps, value, weight, bias))


def _mixed(steps: Halves, value: Value, filters: Array, bias: float) -> Value:
    """A 1x1 convolution `[oc, c]` of `value: [n, c, h, w]`; sums and bias are float32."""
    n, _, h, w = value.tensor.dims
    weight = steps.build.weight("mix_bf16", as_bf16(filters[:, :, None, None]), "bf16")
    biases = steps.build.weight("mix_bias", np.ones(filters.shape[0], np.float32) * np.float32(bias))
    return steps.do(tpu.Conv2D(kernel_shape=(1, 1)), [value, weight, biases], (n, filters.shape[0], h, w))


@TABLE.lowers(top.LRN, "bf16", "int8")
class LrnAny(Normalisation):
    """Sums of neighbouring channels are a convolution with a band of ones."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.LRN = node.op
        steps, dims = Halves(node, build), node.result_type.dims
        value = steps.reshape(steps.operand(), (dims[0], dims[1], 1, math.prod(dims[2:])))
        distance = np.arange(dims[1])[None, :] - np.arange(dims[1])[:, None]
        before = (op.size - 1) // 2
        band = ((distance >= -before) & (distance < op.size - before)) * (op.alpha / op.size)
        sums = _mixed(steps, steps.function("SQUARE", value), band.astype(np.float32), op.bias)
        if op.beta == 0.75:
            root = steps.function("RSQRT", sums)
            factor = steps.do(tpu.Mul(), [root, steps.function("SQRT", root)])
        else:
            factor = steps.powers(sums, -op.beta)
        return steps.last(steps.do(tpu.Mul(), [value, factor]))


@TABLE.lowers(top.Normalize, "bf16", "int8")
class NormalizeAny(Normalisation):
    """Squares are added over the channels by a convolution with ones, or over a whole sample."""

    def refuse(self, node: LoweringNode) -> str | None:
        return None if node.constants[1] is not None else "the scale must be a constant"

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Normalize = node.op
        steps, dims = Halves(node, build), node.result_type.dims
        scale = node.constants[1]
        assert scale is not None
        if op.across_spatial:
            count = math.prod(dims[1:])
            # The length is the root of the mean, times that of how many there are.
            value = _normalised(steps, steps.operand(), dims[0], EPSILON / count, centred=False)
            scale = scale / math.sqrt(count)
            value = steps.reshape(value, (dims[0], dims[1], 1, math.prod(dims[2:])))
        else:
            value = steps.reshape(steps.operand(), (dims[0], dims[1], 1, math.prod(dims[2:])))
            ones = np.ones((1, dims[1]), np.float32)
            sums = _mixed(steps, steps.function("SQUARE", value), ones, EPSILON)
            value = steps.do(tpu.Mul(), [value, steps.function("RSQRT", sums)])
        return steps.last(_affine(steps, value, scale.reshape(1, -1, 1, 1), None))
