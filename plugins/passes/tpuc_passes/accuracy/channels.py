"""Which channels of a network can be scaled together without changing what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Constant, FusesRelu, Module, Operation, ShapeOnly, TensorType, Value
from tpuc_ops.top.add import Add
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.min import Min
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.upsample import Upsample

Ids = NDArray[np.int64]

_UNARY = (Relu, MaxPool, AvgPool, LeakyRelu, PRelu, Upsample)
_TOGETHER = (Add, Sub, Max, Min)
FIXED = 0
"""The group of channels that have to stay as they are."""


@dataclass
class Channels:
    """Per value the axis of its channels and an id for each; ids with the same `find` share one positive factor.

    `limits` are relu limits by id: there a factor below 1 moves the limit inwards, one above 1 would lift it.
    """

    axes: dict[str, int] = field(default_factory=dict[str, int])
    ids: dict[str, Ids] = field(default_factory=dict[str, "NDArray[np.int64]"])
    limits: dict[int, float] = field(default_factory=dict[int, float])
    parents: list[int] = field(default_factory=lambda: [FIXED])

    def find(self, one: int) -> int:
        """The id that stands for a group; `FIXED` when it has to stay."""
        while self.parents[one] != one:
            self.parents[one] = self.parents[self.parents[one]]
            one = self.parents[one]
        return one

    def roots(self, name: str) -> Ids:
        """The groups of a value's channels."""
        return np.array([self.find(int(one)) for one in self.ids[name]], np.int64)

    def new(self, value: Value, axis: int) -> None:
        """Channels of their own."""
        count = value.tensor.dims[axis]
        first = len(self.parents)
        self.parents += range(first, first + count)
        self.axes[value.name], self.ids[value.name] = axis, np.arange(first, first + count)

    def join(self, a: Ids, b: Ids) -> None:
        """Channels pairwise share a factor."""
        for one, other in zip(a.tolist(), b.tolist(), strict=True):
            low, high = sorted((self.find(one), self.find(other)))
            self.parents[high] = low

    def fix(self, value: Value) -> None:
        """These channels keep factor 1."""
        if value.name in self.ids:
            ids = self.ids[value.name]
            self.join(ids, np.zeros_like(ids))

    def take(self, value: Value, axis: int, ids: Ids) -> None:
        """The channels of a value are known ones."""
        self.axes[value.name], self.ids[value.name] = axis, ids


def find_channels(module: Module) -> Channels:
    """Every value's channels. Only products give channels of their own, and only they take factors in."""
    found = Channels()
    outputs = {value.name for value in module.main.outputs}
    for operation in module.main.operations:
        op: Any = operation.op
        if isinstance(op, Constant):
            continue
        if is_product(operation):
            source, result = operation.operands[0], operation.result
            if source.name in found.ids and found.axes[source.name] != input_axis(operation):
                found.fix(source)
            found.new(result, output_axis(operation))
        elif not _passes(operation, found):
            for value in (*operation.operands, *operation.results):
                if isinstance(value.type, TensorType):
                    found.fix(value)
        for value in operation.results:
            limit = relu_limit(op)
            if limit > 0 and value.name in found.ids:
                for one in found.ids[value.name].tolist():
                    found.limits[one] = limit
            if value.name in outputs:
                found.fix(value)
    return found


def relu_limit(op: Any) -> float:
    """Of a relu or a fused one, 0 when there is none."""
    has_relu = isinstance(op, Relu) or (isinstance(op, FusesRelu) and op.__dict__["do_relu"])
    return max(float(op.__dict__.get("relu_limit", 0.0)), 0.0) if has_relu else 0.0


def is_product(operation: Operation) -> bool:
    """Is it a product whose filters and bias are constants that can take factors?"""
    op: Any = operation.op
    if isinstance(op, Conv):
        return not op.inserts and _constants(operation)
    if isinstance(op, MatMul):
        plain = not (op.left_transpose or op.output_transpose or op.hdim_is_batch)
        return plain and operation.operands[1].tensor.rank == 2 and _constants(operation)
    return False


def _constants(operation: Operation) -> bool:
    rest = [value for value in operation.operands[1:] if isinstance(value.type, TensorType)]
    return all(value.defining is not None and isinstance(value.defining.op, Constant) for value in rest)


def input_axis(operation: Operation) -> int:
    """Where a product's operand has its channels."""
    return operation.operands[0].tensor.rank - 1 if isinstance(operation.op, MatMul) else 1


def output_axis(operation: Operation) -> int:
    """Where a product's result has its channels."""
    return operation.result.tensor.rank - 1 if isinstance(operation.op, MatMul) else 1


def _passes(operation: Operation, found: Channels) -> bool:
    """Give the result the operands' channels; False for ops through which no factor passes."""
    op: Any = operation.op
    computed = [value for value in operation.operands if isinstance(value.type, TensorType)]
    known = [value for value in computed if value.name in found.ids]
    if not known or len(operation.results) != 1:
        return False
    first, result = known[0], operation.result
    axis, ids = found.axes[first.name], found.ids[first.name]
    dims = first.tensor.dims
    if isinstance(op, _UNARY):
        if isinstance(op, PRelu) and operation.operands[1].tensor.size not in (1, len(ids)):
            return False
        if axis != 1 and not isinstance(op, (Relu, LeakyRelu)):
            return False
        found.take(result, axis, ids)
    elif isinstance(op, _TOGETHER):
        if len(known) != len(operation.operands) or any(value.tensor.dims != dims for value in computed):
            return False
        if any(found.axes[value.name] != axis for value in known):
            return False
        for value in known[1:]:
            found.join(ids, found.ids[value.name])
        found.take(result, axis, ids)
    elif isinstance(op, Concat):
        place = op.axis % len(dims)
        if len(known) != len(operation.operands) or any(found.axes[value.name] != axis for value in known):
            return False
        if place == axis:
            found.take(result, axis, np.concatenate([found.ids[value.name] for value in known]))
        else:
            for value in known[1:]:
                found.join(ids, found.ids[value.name])
            found.take(result, axis, ids)
    elif isinstance(op, Pad):
        if op.val != 0 or op.paddings[axis] or op.paddings[axis + len(dims)]:
            return False
        found.take(result, axis, ids)
    elif isinstance(op, Permute):
        found.take(result, list(op.order).index(axis), ids)
    elif isinstance(op, ShapeOnly):
        wanted = result.tensor.dims
        inner = int(np.prod(dims[axis + 1 :]))
        if len(wanted) == 2 and axis == 1 and wanted[0] == dims[0]:
            found.take(result, 1, np.repeat(ids, inner))
        elif wanted[: axis + 1] == dims[: axis + 1]:
            found.take(result, axis, ids)
        else:
            return False
    else:
        return False
    return True


def factors_of(channels: Channels, name: str, by_root: Mapping[int, float]) -> NDArray[np.float64] | None:
    """The factor of every channel of a value; None when all are 1."""
    if name not in channels.ids:
        return None
    roots = channels.roots(name).tolist()
    if not any(root in by_root for root in roots):
        return None
    return np.array([by_root.get(root, 1.0) for root in roots])


def products(module: Module) -> Sequence[Operation]:
    """The products that take factors, in order."""
    return [operation for operation in module.main.operations if is_product(operation)]
