"""Ops that move data or rename shapes: any element type passes through."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Value, numpy_dtype
from tpuc_ops.lowering import Depth2SpaceAny, PermuteAny, ReshapeAny, ShapeLowering
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
from tpuc_ops.tpu.relu import Relu as TpuRelu
from tpuc_ops.tpu.slice import Slice as TpuSlice
from tpuc_ops.tpu.upsample import Upsample as TpuUpsample

from tpuc_bm1684x.lowerings.borders import bordered, is_far_backwards, taken_backwards
from tpuc_bm1684x.lowerings.common import ALL
from tpuc_bm1684x.lowerings.places import as_element, common_element
from tpuc_bm1684x.lowerings.table import TABLE

TABLE.lowers(Reshape, *ALL)(ReshapeAny)
TABLE.lowers(Flatten, *ALL)(ReshapeAny)
TABLE.lowers(Squeeze, *ALL)(ReshapeAny)
TABLE.lowers(Unsqueeze, *ALL)(ReshapeAny)
TABLE.lowers(Permute, *ALL)(PermuteAny)
TABLE.lowers(Depth2Space, *ALL)(Depth2SpaceAny)


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
