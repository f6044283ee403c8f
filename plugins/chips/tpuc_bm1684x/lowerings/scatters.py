"""ScatterElements and ScatterND."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value, Wants
from tpuc_chip_parts.copies import dense_strides
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, Array
from tpuc_bm1684x.lowerings.gathers import row_places
from tpuc_bm1684x.lowerings.places import (
    as_element,
    common_element,
    finished,
    offsets,
    places_of,
    reshaped,
    too_far,
    whole,
)
from tpuc_bm1684x.lowerings.table import TABLE

_MOST_PAIRS = 1 << 24
_REDUCED = {
    "add": ("ReduceSum", 0.0),
    "mul": ("ReduceProd", 1.0),
    "max": ("ReduceMax", -2.0),
    "min": ("ReduceMin", 2.0),
}
"""The reduction for updates and its neutral value; magnitudes above 1 stand for the largest number of that sign."""
_COMBINED: dict[str, type[Op]] = {"add": tpu.Add, "mul": tpu.Mul, "max": tpu.Max, "min": tpu.Min}


class Scattering(Lowering[Any]):
    """Base of scatters: tensor and updates in one type, indices exact.

    With a reduction, constant positions that are all different combine gathered rows with the updates; otherwise every
    row is compared with every update.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        if node.op.reduction != "none" and not self._are_different(node):
            pairs = self.pairs(node)
            if pairs > _MOST_PAIRS:
                return (
                    f"reduction {node.op.reduction} with indices that may repeat takes at most {_MOST_PAIRS} pairs of "
                    f"an element and an update, there are {pairs}"
                )
        return too_far(node.operand_types[0].dims)

    def _are_different(self, node: LoweringNode) -> bool:
        if node.constants[1] is None:
            return False
        places = self.constant_places(node)
        return len(np.unique(places)) == places.size

    def pairs(self, node: LoweringNode) -> int:
        """Number of element-update pairs that a reduction compares."""
        raise NotImplementedError

    def constant_places(self, node: LoweringNode) -> Array:
        """The row numbers of constant indices."""
        raise NotImplementedError

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.AS_IS
        if node.op.reduction != "none":
            wanted = Wants.FLOAT if node.mode in INTEGERS else Wants.MODE
        return (wanted, Wants.INDEX, wanted)

    def scattered(self, node: LoweringNode, build: LoweringBuilder, view: tuple[int, int, int], places: Value) -> Value:
        """Apply the updates to positions of the tensor viewed as (channels, rows, width)."""
        element = common_element(node, (0, 2))
        channels, _, width = view
        x = as_element(node, build, 0, element, view)
        updates = as_element(node, build, 2, element, (channels, places.tensor.dims[1], width))
        result = node.result_type.with_element(element).with_shape(view)
        if node.op.reduction != "none" and not self._are_different(node):
            return finished(build, _combined(node, build, x, updates, places), node.result_type)
        if node.op.reduction != "none":
            old = build(tpu.GatherRows(), [x, places], updates.tensor.with_element(element), f"{node.name}_old")
            op = _COMBINED[node.op.reduction]()
            updates = build(op, [old, updates], old.tensor, f"{node.name}_combined")
        value = build(tpu.ScatterRows(), [x, places, updates], result, f"{node.name}_scattered")
        return finished(build, value, node.result_type)


def _combined(node: LoweringNode, build: LoweringBuilder, x: Value, updates: Value, places: Value) -> Value:
    """For each row of x, reduce all updates, with those for other rows replaced by the neutral value, and combine the
    result with x.
    """
    (channels, rows, width), count = x.tensor.dims, places.tensor.dims[1]
    reduce, neutral = _REDUCED[node.op.reduction]

    def step(op: Op, operands: Sequence[Value], dims: tuple[int, ...], name: str) -> Value:
        element = F32 if name in ("counted", "mine") else x.tensor.element
        return build(op, operands, TensorType(dims, element), f"{node.name}_{name}")

    shared = places.tensor.dims[0]
    numbers = step(tpu.Cast(with_scale=False), [places], places.tensor.dims, "counted")
    numbers = reshaped(build, numbers, (shared, 1, count, 1), f"{node.name}_columns")
    own = build.weight("rows", np.arange(rows, dtype=np.float32).reshape(1, rows, 1, 1))
    mine = step(tpu.Compare(mode="Equal"), [numbers, own], (shared, rows, count, 1), "mine")
    apart = reshaped(build, updates, (channels, 1, count, width), f"{node.name}_apart")
    # The largest f16, or bf16 rather than f32, which would round to infinity in bf16 and be lost in reductions.
    largest = 65504.0 if x.tensor.storage.name == "f16" else float.fromhex("0x1.fep+127")
    where = tpu.Where(y_is_const=True, y_const_val=math.copysign(largest, neutral) if abs(neutral) > 1 else neutral)
    chosen = step(where, [mine, apart, build.none()], (channels, rows, count, width), "chosen")
    found = step(tpu.Reduce(axes=(2,), mode=reduce, keepdims=False), [chosen], (channels, rows, width), "found")
    return step(_COMBINED[node.op.reduction](), [x, found], (channels, rows, width), "all")


@TABLE.lowers(top.ScatterElements, *ALL)
class ScatterElementsAny(Scattering):
    """Converts each index to its position among the elements that share the dimensions before the axis, or among all
    elements.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        dims, taken = node.operand_types[0].dims, node.operand_types[1].dims
        axis = positive_axis(node.op.axis, len(dims))
        steps = dense_strides(dims)
        shared = axis if taken[:axis] == dims[:axis] else 0
        others = [index for index in range(shared, len(dims)) if index != axis and taken[index] > 1]
        base = offsets(taken, steps, others) if others else None
        channels = math.prod(dims[:shared])
        places = places_of(node, build, (channels, math.prod(taken[shared:])), dims[axis], steps[axis], base)
        return [self.scattered(node, build, (channels, math.prod(dims[shared:]), 1), places)]

    def pairs(self, node: LoweringNode) -> int:
        dims, taken = node.operand_types[0].dims, node.operand_types[1].dims
        axis = positive_axis(node.op.axis, len(dims))
        shared = axis if taken[:axis] == dims[:axis] else 0
        return math.prod(dims) * math.prod(taken[shared:])

    def constant_places(self, node: LoweringNode) -> Array:
        dims, taken = node.operand_types[0].dims, node.operand_types[1].dims
        axis = positive_axis(node.op.axis, len(dims))
        steps = dense_strides(dims)
        others = [index for index in range(len(dims)) if index != axis]
        assert node.constants[1] is not None
        return whole(node.constants[1], dims[axis]) * steps[axis] + offsets(taken, steps, others)


@TABLE.lowers(top.ScatterND, *ALL)
class ScatterNDAny(Scattering):
    """Combines the indices of the leading dimensions into one row index."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        dims = node.operand_types[0].dims
        indexed = dims[: node.operand_types[1].dims[-1]]
        view = (1, math.prod(indexed), math.prod(dims[len(indexed) :]))
        return [self.scattered(node, build, view, row_places(node, build, 1, indexed))]

    def pairs(self, node: LoweringNode) -> int:
        return math.prod(node.operand_types[0].dims) * math.prod(node.operand_types[1].dims[:-1])

    def constant_places(self, node: LoweringNode) -> Array:
        indexed = node.operand_types[0].dims[: node.operand_types[1].dims[-1]]
        indices, steps = node.constants[1], dense_strides(indexed)
        assert indices is not None
        return np.asarray(sum(whole(indices[..., i], indexed[i]) * steps[i] for i in range(len(indexed))))
