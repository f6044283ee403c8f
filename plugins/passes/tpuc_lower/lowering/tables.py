"""Replace computations on integer inputs that only the runtime reads, such as token numbers, by tables.

A runtime function such as an embedding reads integers, which the chip cannot process. They are smaller than the number
of rows of its table, so anything computed from each of them alone is a table of that length, too: `ids != pad` has one
row per token.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api import (
    ABSENT,
    F32,
    Builder,
    Elementwise,
    Module,
    Node,
    NoneType,
    Op,
    Operation,
    Return,
    ShapeOnly,
    StringAttr,
    TensorType,
    Value,
)
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis
from tpuc_optimize.canonicalization.common import Names

from tpuc_lower.lowering.bounds import Bounds
from tpuc_lower.lowering.cells import COMPUTE_TYPE, Cells, uses_of

_DIGIT = 256
"""Integers below this are exact in every float type."""


def tabulate(module: Module, cells: Cells) -> bool:
    """Rewrite the module; returns True if it changed."""
    names, bounds = Names(module), Bounds(module)
    changed = [_Tables(module, cells, names, one, rows).run() for one, rows in cells.index_inputs(module).items()]
    shortened = [_shorten(module, cells, names, bounds, one) for one in list(module.main.operations[:-1])]
    return any(changed) or any(shortened)


@dataclass
class _Tables:
    """The tables computed from one input of the network."""

    module: Module
    cells: Cells
    names: Names
    source: Operation
    rows: int
    found: dict[Value, Array] = field(default_factory=dict[Value, Array])
    made: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def run(self) -> bool:
        """Replace the operands of other ops."""
        value = self.source.result
        if any(isinstance(user.op, Return) for user, _ in uses_of(value)) or self._is_alone():
            return False
        self.found[value] = np.arange(self.rows, dtype=np.float32)
        computed = [one for one in self.module.main.operations[:-1] if self._add(one)]
        for one in (self.source, *computed):
            self._replace(one.result)
        for one in reversed(computed):
            if not one.result.uses:
                one.erase()
        return True

    def _is_alone(self) -> bool:
        return all(self._reads(*use) for use in uses_of(self.source.result))

    def _reads(self, user: Operation, index: int) -> bool:
        """True if a function of the runtime reads the input itself at that operand."""
        return self.cells.reads_as_index(user, index, {self.source})

    def _add(self, operation: Operation) -> bool:
        """Compute the table of an operation's result if it depends on each input number alone."""
        op, size = operation.op, self.source.result.tensor.size
        if not isinstance(op, (ShapeOnly, Elementwise)) or len(operation.results) != 1:
            return False
        if operation.result.tensor.size != size or not any(one in self.found for one in operation.operands):
            return False
        parts = [self._part(one) for one in operation.operands]
        dims = {one.tensor.dims for one in operation.operands if one in self.found}
        if any(part is None for part in parts) or len(dims) > 1:
            return False
        if isinstance(op, ShapeOnly):
            self.found[operation.result] = self.found[operation.operands[0]]
            return True
        arrays = [part for part in parts if part is not None]
        types = tuple(
            ABSENT if isinstance(one.type, NoneType) else TensorType(array.shape, F32)
            for one, array in zip(operation.operands, arrays, strict=True)
        )
        node = Node(op, types, (TensorType((self.rows,), F32),), operation.name)
        (result,) = op.evaluate(node, arrays)
        self.found[operation.result] = np.asarray(result, np.float32).reshape(self.rows)
        return True

    def _part(self, value: Value) -> Array | None:
        """An operand for all numbers at once; None if it is not one value per number."""
        if value in self.found:
            return self.found[value]
        if isinstance(value.type, NoneType):
            return np.zeros(0, np.float32)
        constant = self.module.constant(value)
        return np.asarray(constant).reshape(1) if constant is not None and constant.size == 1 else None

    def _replace(self, value: Value) -> None:
        """Make every op without a table read rows of the value's table, except functions of the runtime."""
        for user, index in list(value.uses):
            if any(result in self.found for result in user.results) or self._reads(user, index):
                continue
            if isinstance(user.op, top.Arg) and not user.results[1].uses and self._is_wide(value):
                self._search(user, value)
            else:
                user.set_operand(index, self._rows(value))

    def _is_wide(self, value: Value) -> bool:
        return len(np.unique(self.found[value])) > _DIGIT

    def _rows(self, value: Value) -> Value:
        """The rows of a value's table for the input, under the name of the value."""
        if value not in self.made:
            first = min((user for user, _ in value.uses), key=_position)
            self.made[value] = self._chosen(first, value, self.found[value], value.name)
        return self.made[value]

    def _chosen(self, before: Operation, value: Value, table: Array, name: str) -> Value:
        build = Builder(self.module, before=before, constant=top.Weight(), absent=top.None_())
        ids = self.source.result
        weight = build.weight(self.names.new(f"{name}_table"), table[:, None].astype(np.float32))
        type_ = value.tensor.with_shape((*ids.tensor.dims, 1))
        rows = build.build(top.Gather(axis=0), [weight, ids], type_, self.names.new(f"{name}_rows"))
        dims = value.tensor.dims
        return build.build(top.Reshape(shape=dims), [rows], value.tensor, self.names.new(f"{name}_of_table"))

    def _search(self, user: Operation, value: Value) -> None:
        """Find the largest number among numbers that the chip's floats cannot distinguish: by the first digit, and
        among equal first digits by the second.
        """
        op = user.op
        assert isinstance(op, top.Arg)
        _, ranks = np.unique(self.found[value], return_inverse=True)
        if op.mode == "ArgMin":
            ranks = ranks.max() - ranks
        first, second = np.divmod(ranks, _DIGIT)
        axis, mode = positive_axis(op.axis, value.tensor.rank), self.cells.chip.compute_type
        high = self._chosen(user, value, first, f"{user.name}_high")
        low = self._chosen(user, value, second + 1, f"{user.name}_low")
        build = Builder(self.module, before=user, constant=top.Weight(), absent=top.None_())

        def do(step: Op, *operands: Value) -> Value:
            made = build.operation(step, operands, name=self.names.new(f"{user.name}_part"))
            if mode != self.cells.mode:
                made.extra_attributes[COMPUTE_TYPE] = StringAttr(mode)
            return made.result

        most = do(top.Reduce(axes=(axis,), mode="ReduceMax"), high)
        digits = do(top.Mul(), do(top.Compare(mode="Equal"), high, most), low)
        user.set_operand(0, digits)
        user.op = replace(op, mode="ArgMax")


def _position(operation: Operation) -> int:
    assert operation.block is not None
    return operation.block.position(operation)


def _shorten(module: Module, cells: Cells, names: Names, bounds: Bounds, operation: Operation) -> bool:
    """Remove table rows that computed indices cannot reach, where the chip cannot choose among all of them."""
    op = operation.op
    if not isinstance(op, (top.Gather, top.GatherElements)) or not operation.results[0].uses:
        return False
    table = module.constant(operation.operands[0])
    if table is None or module.constant(operation.operands[1]) is not None or not _is_refused(module, cells, operation):
        return False
    axis, reach = op.axis % table.ndim, bounds.of(operation.operands[1])
    if reach is None or reach[0] < 0 or reach[1] + 1 >= table.shape[axis]:
        return False
    build = Builder(module, before=operation, constant=top.Weight(), absent=top.None_())
    short = np.ascontiguousarray(table.take(np.arange(int(reach[1]) + 1), axis))
    name = names.new(f"{operation.operands[0].name}_reached")
    operation.set_operand(0, build.weight(name, short))
    return True


def _is_refused(module: Module, cells: Cells, operation: Operation) -> bool:
    """True if the chip can neither lower nor legalize it."""
    mode = cells.mode_of(operation)
    node = cells.node(module, operation, mode)
    ways = (cells.lowering(operation.op, mode), cells.legalization(operation.op))
    return all(way is None or way.refuse(node) is not None for way in ways)
