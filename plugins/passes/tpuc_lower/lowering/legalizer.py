"""Apply the legalizations of a chip to a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from tpuc.api import (
    NO_LOWERING,
    Builder,
    ElementType,
    Legalization,
    Module,
    Op,
    Operation,
    ShapeOnly,
    StringAttr,
    TensorType,
    Unsupported,
    Value,
    free_name,
)
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize

from tpuc_lower.lowering.cells import COMPUTE_TYPE, Array, Cells, as_array, check_results, is_kept, together


@dataclass
class Legalizer:
    """Rewrites ops without a lowering on the chip, and the ops that replace them."""

    module: Module
    cells: Cells
    has_changed: bool = False
    _refusals: list[str] = field(default_factory=list[str])
    _fails: bool = False
    _names: set[str] = field(default_factory=set[str])

    @cached_property
    def float_sums(self) -> set[str]:
        """Names of the operations whose results are only read as floats, including their replacements."""
        return set(self.cells.float_sums)

    def run(self) -> None:
        """Rewrite the module; raises Unsupported with all refusals at once."""
        block = self.module.main.body
        self._names = {name for operation in block.operations for name in operation.location.names}
        for operation in list(block.operations[:-1]):
            if not is_kept(operation) and not isinstance(operation.op, (Quantize, Dequantize)):
                self._visit(operation, operation)
        if self._fails:
            raise Unsupported(together(self._refusals))

    def _visit(self, operation: Operation, origin: Operation) -> None:
        """Legalize an operation where needed; `origin`: the operation of the network that it came from."""
        mode = self.cells.mode_of(operation)
        node = self.cells.node(self.module, operation, mode)
        rule = self.cells.lowering(operation.op, mode)
        reason = NO_LOWERING if rule is None else rule.refuse(node)
        if reason is None:
            return
        legalization = self.cells.legalization(operation.op)
        if self.cells.is_named(operation) and self.cells.goes_to_cpu(self.module, operation):
            return
        if legalization is not None:
            other = legalization.refuse(node)
            reason = other if rule is None or other is None else reason
        if legalization is not None and reason is None:
            self._rewrite(operation, origin, legalization)
        elif not self.cells.goes_to_cpu(self.module, operation):
            # What is only not lowered is left to the lowering, unless this pass fails anyway.
            via = "" if operation is origin else f"it is composed of {operation.op.name}: "
            hint = self.cells.cpu_way_out(self.module, operation) if operation is origin else ""
            self._refuse(origin, f"{via}{reason}{hint}", is_final=operation is not origin or legalization is not None)

    def _refuse(self, origin: Operation, reason: str, *, is_final: bool = True) -> None:
        self._refusals.append(self.cells.refusal(origin, self.cells.mode_of(origin), reason))
        self._fails = self._fails or is_final

    def _rewrite(self, operation: Operation, origin: Operation, legalization: Legalization[Op]) -> None:
        mode = self.cells.mode_of(operation)
        build = _Builder(self, operation, legalization)
        try:
            results = legalization.rewrite(self.cells.node(self.module, operation, mode), build)
        except ValueError as error:
            self._refuse(origin, str(error))
            return
        check_results("legalization", operation, legalization, results)
        for old, new in zip(operation.results, results, strict=True):
            assert new.name == old.name, f"{operation.op.name}: '{new.name}' stands for '{old.name}'"
            old.replace_with(new)
        operation.erase()
        self.has_changed = True
        if operation.name in self.float_sums:
            self.float_sums.update(_producer(result).name for result in results)
        for made in build.made:
            self._visit(made, origin)

    def unique(self, name: str) -> str:
        """An unused name."""
        free = free_name(name, lambda name: name in self._names or name in self.module.weights)
        self._names.add(free)
        return free


def _producer(value: Value) -> Operation:
    """The operation that computes a value, ignoring reshapes."""
    producer = value.defining
    assert producer is not None
    return _producer(producer.operands[0]) if isinstance(producer.op, ShapeOnly) else producer


class _Builder:
    """Builds the replacement of one operation, just before it."""

    def __init__(self, legalizer: Legalizer, anchor: Operation, legalization: Legalization[Op]) -> None:
        self._legalizer, self._anchor, self._legalization = legalizer, anchor, legalization
        self._builder = Builder(legalizer.module, before=anchor, constant=top.Weight(), absent=top.None_())
        self.made: list[Operation] = []

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType, name: str, compute_type: str | None = None
    ) -> Value:
        assert isinstance(op, self._legalization.into), f"{self._anchor.op.name} is not said to be built of {op.name}"
        own = self._anchor.location.names
        own_name = name if name in own else self._legalizer.unique(name)
        mode = compute_type or self._legalizer.cells.mode_of(self._anchor)
        operation = self._builder.operation(op, operands, result, own_name)
        if mode != self._legalizer.cells.mode:
            operation.extra_attributes[COMPUTE_TYPE] = StringAttr(mode)
        self.made.append(operation)
        return operation.result

    def weight(self, name: str, array: Array, element: ElementType | None = None) -> Value:
        plain = as_array(array.astype(np.float32, copy=False))
        return self._builder.weight(self._legalizer.unique(name), plain, element)

    def none(self) -> Value:
        return self._builder.none()
