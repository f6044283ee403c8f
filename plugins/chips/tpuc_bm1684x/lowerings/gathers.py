"""Gather, GatherElements and GatherND: stored values are moved row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.copies import dense_strides
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, Array
from tpuc_bm1684x.lowerings.places import (
    compact,
    finished,
    offsets,
    places_of,
    reshaped,
    stored_weight,
    too_far,
    whole,
)
from tpuc_bm1684x.lowerings.table import TABLE


class Gathering(Lowering[Any]):
    """Base of gathers: the tensor keeps its stored type, indices are exact. A constant tensor is stored in the result's
    type.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return too_far(node.operand_types[0].dims)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS, Wants.INDEX, *(Wants.AS_IS,) * (len(node.operand_types) - 2))

    def gathered(
        self,
        node: LoweringNode,
        build: LoweringBuilder,
        table: Array | Value,
        view: tuple[int, int, int],
        places: Value,
    ) -> Value:
        """The node's result: rows of `table`, viewed as (channels, rows, width). `table` is a value, or an array that
        is not yet stored.
        """
        if isinstance(table, Value):
            type_ = table.tensor.at(None)
            rows = reshaped(build, table, view, f"{node.name}_table")
        else:
            type_ = node.quantized_result_type() if node.mode in INTEGERS else node.float_result_type()
            rows = stored_weight(build, "table", table.reshape(view), type_.with_shape(view))
        result = type_.with_shape((view[0], places.tensor.dims[1], view[2]))
        value = build(tpu.GatherRows(), [rows, places], result, f"{node.name}_gathered")
        return finished(build, value, node.result_type)


@TABLE.lowers(top.Gather, *ALL)
class GatherAny(Gathering):
    """Gathers along one axis; constant indices with a constant step become a slice."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        dims = node.operand_types[0].dims
        axis = positive_axis(node.op.axis, len(dims))
        regular = None if node.constants[1] is None else _regular(whole(node.constants[1], dims[axis]))
        if regular is not None and node.constants[0] is None:
            return [self._sliced(node, build, axis, regular)]
        count = node.operand_types[1].size
        places = places_of(node, build, (1, count), dims[axis])
        view = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
        return [self.gathered(node, build, _table(node), view, places)]

    def _sliced(self, node: LoweringNode, build: LoweringBuilder, axis: int, regular: range) -> Value:
        table, dims = node.operands[0], node.operand_types[0].dims
        op = tpu.Slice(
            offset=tuple(regular.start if index == axis else 0 for index in range(len(dims))),
            steps=tuple(regular.step if index == axis else 1 for index in range(len(dims))),
            ends=tuple(regular.stop if index == axis else extent for index, extent in enumerate(dims)),
        )
        shape = tuple(len(regular) if index == axis else extent for index, extent in enumerate(dims))
        value = build(op, [table], table.tensor.with_shape(shape).at(None), f"{node.name}_gathered")
        return finished(build, value, node.result_type)


def _table(node: LoweringNode) -> Array | Value:
    constant = node.constants[0]
    return node.operands[0] if constant is None else constant


def _regular(indices: Array) -> range | None:
    """The indices as a range, None unless they increase by a constant step."""
    flat = indices.reshape(-1)
    if flat.size == 1:
        return range(int(flat[0]), int(flat[0]) + 1)
    steps = np.diff(flat)
    step = int(steps[0])
    return range(int(flat[0]), int(flat[-1]) + 1, step) if step > 0 and (steps == step).all() else None


@TABLE.lowers(top.GatherElements, *ALL)
class GatherElementsAny(Gathering):
    """Converts each index to its position within the elements that share the dimensions before the axis."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        taken = node.operand_types[1].dims
        axis = positive_axis(node.op.axis, len(taken))
        # Crop the table to the extents of the indices before the axis, so that channels match on both sides.
        dims = (*taken[:axis], *node.operand_types[0].dims[axis:])
        table: Array | Value = node.operands[0]
        if node.constants[0] is not None:
            table = node.constants[0][tuple(slice(extent) for extent in dims)]
        elif dims != node.operand_types[0].dims:
            op = tpu.Slice(offset=(0,) * len(dims), steps=(1,) * len(dims), ends=dims)
            cut = node.operands[0].tensor.with_shape(dims).at(None)
            table = build(op, [node.operands[0]], cut, f"{node.name}_part")
        channels, rest = math.prod(dims[:axis]), math.prod(dims[axis:])
        steps = dense_strides(dims)
        inner = range(axis + 1, len(dims))
        base = offsets(taken, steps, inner) if math.prod(dims[axis + 1 :]) > 1 else None
        places = places_of(node, build, (channels, math.prod(taken[axis:])), dims[axis], steps[axis], base)
        return [self.gathered(node, build, table, (channels, rest, 1), places)]


@TABLE.lowers(top.GatherND, *ALL)
class GatherNDAny(Gathering):
    """Combines the indices of several dimensions into one row index."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        batch, dims = node.op.batch_dims, node.operand_types[0].dims
        indexed = dims[batch : batch + node.operand_types[1].dims[-1]]
        channels = math.prod(dims[:batch])
        places = row_places(node, build, channels, indexed)
        view = (channels, math.prod(indexed), math.prod(dims[batch + len(indexed) :]))
        return [self.gathered(node, build, _table(node), view, places)]


def row_places(node: LoweringNode, build: LoweringBuilder, channels: int, indexed: Sequence[int]) -> Value:
    """Operand 1, with one index per dimension of `indexed` in its last dimension, as int32 row numbers [channels,
    count].
    """
    steps, parts = dense_strides(indexed), len(indexed)
    count = node.operand_types[1].size // parts // channels
    constant = node.constants[1]
    if constant is not None:
        total = sum(whole(constant[..., i], indexed[i]) * steps[i] for i in range(parts))
        return build.weight("places", np.asarray(total).reshape(channels, count).astype(np.int32))
    whole_index = reshaped(build, node.operands[1], (channels, count, parts), f"{node.name}_indices")
    places: list[Value] = []
    for part in range(parts):
        value = whole_index
        if parts > 1:
            op = tpu.Slice(offset=(0, 0, part), steps=(1, 1, 1), ends=(channels, count, part + 1))
            value = build(op, [value], None, f"{node.name}_index{part}")
        value = reshaped(build, value, compact(channels * count), f"{node.name}_flat{part}")
        index = tpu.RowIndex(extent=indexed[part], stride=steps[part])
        places = [build(index, [value, *places], None, f"{node.name}_places{part}")]
    return reshaped(build, places[0], (channels, count), f"{node.name}_numbers")
