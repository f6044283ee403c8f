"""Ops that move data or change shapes, for any element type."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, ScalarType, TensorType, Value
from tpuc_chip_parts.copies import Copy, dense_strides
from tpuc_chip_parts.lowering import Depth2SpaceAny, PermuteAny, ReshapeAny, ShapeLowering, stored_value
from tpuc_ops import top, tpu

from tpuc_bm1684x.kernels.copies import copy_cycles
from tpuc_bm1684x.kernels.local_permute import keeps_lanes
from tpuc_bm1684x.lowerings.borders import bordered, is_far_backwards, taken_backwards
from tpuc_bm1684x.lowerings.common import ALL, local_memory
from tpuc_bm1684x.lowerings.places import as_element, common_element
from tpuc_bm1684x.lowerings.table import TABLE

_SHORT_RUN_BYTES = 64
"""Maximum size of runs that may be faster as columns than as lines of 256 bytes."""

TABLE.lowers(top.Reshape, *ALL)(ReshapeAny)
TABLE.lowers(top.Flatten, *ALL)(ReshapeAny)
TABLE.lowers(top.Squeeze, *ALL)(ReshapeAny)
TABLE.lowers(top.Unsqueeze, *ALL)(ReshapeAny)
TABLE.lowers(top.Depth2Space, *ALL)(Depth2SpaceAny)


@TABLE.lowers(top.Permute, *ALL)
class PermuteRuns(PermuteAny):
    """Permutes with two transpositions where the result keeps short runs: a plain copy takes a DDR line per run. Local
    memory splits and merges heads without either.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        type_, order = value.tensor, tuple(node.op.order)
        if _is_local(type_, order, node) or not _pays_twice(type_.dims, order, type_.storage):
            return super().lower(node, build)
        last = type_.rank - 1
        first = (last, *range(last))
        dims = tuple(type_.dims[axis] for axis in first)
        value = build(tpu.Permute(order=first), [value], type_.with_shape(dims).at(None), f"{node.name}_runs")
        second = tuple(first.index(axis) for axis in order)
        return [build(tpu.Permute(order=second), [value], self.result(node))]


def _is_local(type_: TensorType, order: tuple[int, ...], node: LoweringNode) -> bool:
    """True where local memory holds operand and result, and no element leaves its lane."""
    return keeps_lanes(type_.dims, order) and 4 * type_.size_bytes <= math.prod(local_memory(node))


def _pays_twice(dims: tuple[int, ...], order: tuple[int, ...], element: ScalarType) -> bool:
    """True when the last dimension is a short run that is kept, and two transpositions are much faster than a copy."""
    last = len(dims) - 1
    if order[last] != last or not 1 < dims[last] <= _SHORT_RUN_BYTES * 8 // element.bits:
        return False
    first = (last, *range(last))
    between = tuple(dims[axis] for axis in first)
    second = tuple(first.index(axis) for axis in order)
    twice = _permutation_cycles(dims, first, element) + _permutation_cycles(between, second, element)
    return 1.5 * twice < _permutation_cycles(dims, order, element)


def _permutation_cycles(dims: tuple[int, ...], order: tuple[int, ...], element: ScalarType) -> int:
    strides, result = dense_strides(dims), tuple(dims[axis] for axis in order)
    copy = Copy(0, result, 0, tuple(strides[axis] for axis in order), 0, dense_strides(result))
    return copy_cycles(copy, element)


@TABLE.lowers(top.Slice, *ALL)
class SliceAny(ShapeLowering):
    """A strided part of the stored values."""

    def lower(self, node: LoweringNode[top.Slice], build: LoweringBuilder) -> Sequence[Value]:
        if is_far_backwards(node):
            return [taken_backwards(node, build)]
        lowered = tpu.Slice(offset=node.op.offset, steps=node.op.steps, ends=node.op.ends)
        return [build(lowered, node.operands[:1], self.result(node))]


@TABLE.lowers(top.Upsample, *ALL)
class UpsampleAny(ShapeLowering):
    """Repeats stored values; a relu clamps them."""

    def lower(self, node: LoweringNode[top.Upsample], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        lowered = tpu.Upsample(scale_h=op.scale_h, scale_w=op.scale_w, do_relu=op.do_relu, relu_limit=op.relu_limit)
        return [build(lowered, node.operands, self.result(node))]


@TABLE.lowers(top.Pad, *ALL)
class PadAny(ShapeLowering):
    """Pads stored values with the stored pad value, or with parts of the tensor."""

    def lower(self, node: LoweringNode[top.Pad], build: LoweringBuilder) -> Sequence[Value]:
        if node.op.mode != "constant":
            return [bordered(node, build)]
        value = stored_value(node.op.val, node.operands[0].tensor)
        return [build(tpu.Pad(paddings=node.op.paddings, val=value), node.operands[:1], self.result(node))]


@TABLE.lowers(top.Concat, *ALL)
class ConcatAny(ShapeLowering):
    """Rescales integers to the result's scale and zero point, each by a multiplier and a shift.

    If any operand is a float, all become floats. Constants are stored in the type of the other operands.
    """

    def lower(self, node: LoweringNode[top.Concat], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        indices = range(len(node.operands))
        wanted = common_element(node, indices)
        parts = [as_element(node, build, index, wanted) for index in indices]
        result = node.result_type.with_element(wanted)
        if not op.do_relu:
            return [build(tpu.Concat(axis=op.axis), parts, result)]
        whole = build(tpu.Concat(axis=op.axis), parts, result, f"{node.name}_whole")
        return [build(tpu.Relu(relu_limit=op.relu_limit), [whole], result)]
