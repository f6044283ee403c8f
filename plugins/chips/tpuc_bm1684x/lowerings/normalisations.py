"""Normalisations and logarithmic softmax, in f32 in every mode: differences, means and roots."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Op, TensorType, Value, Wants
from tpuc_chip_parts.lowering import ConstantWeights
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.lowerings.common import ALL, Array, f32_result
from tpuc_bm1684x.lowerings.reductions import LONG, parts_of, reduced
from tpuc_bm1684x.lowerings.table import TABLE


class Steps:
    """Builds inner ops of one node, all of f32."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder, type_: TensorType) -> None:
        self.node = node
        self.build = build
        self.type = type_

    def do(self, op: Op, operands: Sequence[Value], suffix: str, dims: Sequence[int] | None = None) -> Value:
        """An op whose result has the extents `dims`, or the tensor's own."""
        type_ = self.type if dims is None else self.type.with_shape(tuple(dims))
        return self.build(op, operands, type_, f"{self.node.name}_{suffix}" if suffix else self.node.name)

    def mean(self, value: Value, axes: tuple[int, ...], suffix: str) -> Value:
        """Over neighbouring dimensions, which stay."""
        dims = [1 if axis in axes else extent for axis, extent in enumerate(value.tensor.dims)]
        result, name = self.type.with_shape(tuple(dims)), f"{self.node.name}_{suffix}"
        return reduced(self.build, tpu.Reduce(axes=axes, mode="ReduceMean"), value, result, name)

    def normalised(self, value: Value, axes: tuple[int, ...], eps: float, *, centred: bool, name: str) -> Value:
        """``(x - mean) / sqrt(variance + eps)``, or without the mean; the last op is called `name`."""
        if centred:
            value = self.do(tpu.Sub(), [value, self.mean(value, axes, "mean")], "centred", value.tensor.dims)
        squares = self.do(tpu.Active(mode="SQUARE"), [value], "squares", value.tensor.dims)
        variance = self.mean(squares, axes, "variance")
        dims = variance.tensor.dims
        shifted = self.do(tpu.AddConst(const_val=eps), [variance], "shifted", dims)
        root = self.do(tpu.Active(mode="RSQRT"), [shifted], "root", dims)
        return self.do(tpu.Mul(), [value, root], name, value.tensor.dims)

    def affine(self, value: Value, weight: Array | None, bias: Array | None) -> Value:
        """``x * weight + bias``, each optional and broadcasting; the last op carries the node's name."""
        if weight is not None:
            factors = self.build.weight("weight", weight.astype(np.float32))
            value = self.do(tpu.Mul(), [value, factors], "" if bias is None else "scaled")
        if bias is not None:
            value = self.do(tpu.Add(), [value, self.build.weight("bias", bias.astype(np.float32))], "")
        return value


class Normalisation(ConstantWeights):
    """Base: f32, with constant weights."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)


@TABLE.lowers(top.LayerNorm, *ALL)
@TABLE.lowers(top.RMSNorm, *ALL)
class LastDimensions(Normalisation):
    """Over the last dimensions."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.LayerNorm | top.RMSNorm = node.op
        value, type_ = node.operands[0], f32_result(node)
        steps, rank = Steps(node, build, type_), type_.rank
        start = positive_axis(op.axis, rank) if isinstance(op, top.LayerNorm) else rank - 1
        weight, bias = self.constants(node)
        name = "" if weight is None and bias is None else "normalised"
        axes = tuple(range(start, rank))
        value = steps.normalised(value, axes, op.eps, centred=isinstance(op, top.LayerNorm), name=name)
        shape = type_.dims[start:]
        parts = (None if part is None else part.reshape(shape) for part in (weight, bias))
        return [steps.affine(value, *parts)]


@TABLE.lowers(top.InstanceNorm, *ALL)
@TABLE.lowers(top.GroupNorm, *ALL)
class PerChannel(Normalisation):
    """Over groups of channels, seen as rows; weight and bias are per channel."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.InstanceNorm | top.GroupNorm = node.op
        type_ = f32_result(node)
        steps = Steps(node, build, type_)
        groups = op.num_groups if isinstance(op, top.GroupNorm) else type_.dims[1]
        count = math.prod(type_.dims[1:]) // groups
        rows, axes = (type_.dims[0], groups, count), (2,)
        if type_.dims[0] * groups < LANES // 2 and count > LONG:
            rows, axes = (type_.dims[0] * groups, parts_of(count), count // parts_of(count)), (1, 2)  # in all lanes
        value = steps.do(tpu.Reshape(shape=rows), node.operands[:1], "rows", rows)
        value = steps.normalised(value, axes, op.eps, centred=True, name="normalised")
        weight, bias = self.constants(node)
        plain = weight is None and bias is None
        value = steps.do(tpu.Reshape(shape=type_.dims), [value], "" if plain else "images")
        shape = (1, -1, *(1,) * (type_.rank - 2))
        parts = (None if part is None else part.reshape(shape) for part in (weight, bias))
        return [steps.affine(value, *parts)]
