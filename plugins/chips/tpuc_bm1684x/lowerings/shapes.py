"""Ops that move data or rename shapes: any element type passes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Value, Wants, numpy_dtype
from tpuc_ops.quant.arithmetic import Rounding, quantise_float
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.depth2space import Depth2Space
from tpuc_ops.top.flatten import Flatten
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.reshape import Reshape
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.squeeze import Squeeze
from tpuc_ops.top.unsqueeze import Unsqueeze
from tpuc_ops.top.upsample import Upsample
from tpuc_ops.tpu.concat import Concat as TpuConcat
from tpuc_ops.tpu.pad import Pad as TpuPad
from tpuc_ops.tpu.permute import Permute as TpuPermute
from tpuc_ops.tpu.relu import Relu as TpuRelu
from tpuc_ops.tpu.reshape import Reshape as TpuReshape
from tpuc_ops.tpu.slice import Slice as TpuSlice
from tpuc_ops.tpu.upsample import Upsample as TpuUpsample

from tpuc_bm1684x.lowerings.borders import bordered, is_far_backwards, taken_backwards
from tpuc_bm1684x.lowerings.common import ALL
from tpuc_bm1684x.lowerings.places import as_element, common_element
from tpuc_bm1684x.lowerings.table import TABLE


class ShapeLowering(Lowering[Any]):
    """Base: operands as their producers made them, and the first one's element in the result."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def result(self, node: LoweringNode) -> TensorType:
        """The first operand's element in the result's shape."""
        return node.operands[0].tensor.with_shape(node.result_type.dims)


@TABLE.lowers(Reshape, *ALL)
@TABLE.lowers(Flatten, *ALL)
@TABLE.lowers(Squeeze, *ALL)
@TABLE.lowers(Unsqueeze, *ALL)
class ReshapeAny(ShapeLowering):
    """The same bytes under another shape."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(TpuReshape(shape=node.result_type.dims), node.operands[:1], self.result(node))]


@TABLE.lowers(Permute, *ALL)
class PermuteAny(ShapeLowering):
    """A transposition of stored values."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(TpuPermute(order=node.op.order), node.operands, self.result(node))]


@TABLE.lowers(Depth2Space, *ALL)
class Depth2SpaceAny(ShapeLowering):
    """The dimensions of blocks and channels apart, in another order, and together again."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Depth2Space = node.op
        type_ = node.operands[0].tensor
        split, order = _block_order(op, type_.dims)
        value = build(TpuReshape(shape=split), node.operands, type_.with_shape(split), f"{node.name}_split")
        dims = tuple(split[axis] for axis in order)
        value = build(TpuPermute(order=order), [value], type_.with_shape(dims), f"{node.name}_ordered")
        return [build(TpuReshape(shape=node.result_type.dims), [value], self.result(node))]


def _block_order(op: Depth2Space, dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operand with its blocks as dimensions of their own, and the order in which the result has them."""
    n, c, h, w = dims
    down, right = op.block_h, op.block_w
    if op.is_inversed:
        split = (n, c, h // down, down, w // right, right)
        return split, (0, 1, 3, 5, 2, 4) if op.is_CRD else (0, 3, 5, 1, 2, 4)
    channels = c // (down * right)
    if op.is_CRD:
        return (n, channels, down, right, h, w), (0, 1, 4, 2, 5, 3)
    return (n, down, right, channels, h, w), (0, 3, 4, 1, 5, 2)


@TABLE.lowers(Slice, *ALL)
class SliceAny(ShapeLowering):
    """A regular part of the stored values."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Slice = node.op
        if is_far_backwards(node):
            return [taken_backwards(node, build)]
        tpu = TpuSlice(offset=op.offset, steps=op.steps, ends=op.ends)
        return [build(tpu, node.operands[:1], self.result(node))]


@TABLE.lowers(Upsample, *ALL)
class UpsampleAny(ShapeLowering):
    """Repeated stored values; a relu clamps them."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Upsample = node.op
        tpu = TpuUpsample(scale_h=op.scale_h, scale_w=op.scale_w, do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(tpu, node.operands, self.result(node))]


@TABLE.lowers(Pad, *ALL)
class PadAny(ShapeLowering):
    """Stored values with a border of what the pad value is stored as, or of parts of the tensor."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Pad = node.op
        if op.mode != "constant":
            return [bordered(node, build)]
        type_ = node.operands[0].tensor
        value = op.val
        if type_.is_quantised:
            uniform, dtype = type_.uniform, numpy_dtype(type_.storage)
            stored = quantise_float(value, uniform.scale, uniform.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype)
            value = float(stored)
        return [build(TpuPad(paddings=op.paddings, val=value), node.operands[:1], self.result(node))]


@TABLE.lowers(Concat, *ALL)
class ConcatAny(ShapeLowering):
    """Integers are first brought to the result's scale and zero point, each by a multiplier and a shift.

    As soon as one operand is a float, all become floats. Constants are stored as the others are.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Concat = node.op
        indices = range(len(node.operands))
        wanted = common_element(node, indices)
        parts = [as_element(node, build, index, wanted) for index in indices]
        result = node.result_type.with_element(wanted)
        if not op.do_relu:
            return [build(TpuConcat(axis=op.axis), parts, result)]
        whole = build(TpuConcat(axis=op.axis), parts, result, f"{node.name}_whole")
        return [build(TpuRelu(relu_limit=op.relu_limit), [whole], result)]
