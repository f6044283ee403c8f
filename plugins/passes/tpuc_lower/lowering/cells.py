"""Look up the table cells of ops in their modes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from tpuc.api import (
    ALL_OPS,
    QUANTIZE_TABLE,
    BrokenPromise,
    ChipDescription,
    Constant,
    CpuFunction,
    Legalization,
    Lowering,
    LoweringNode,
    Module,
    NetworkInput,
    Node,
    NoneType,
    Op,
    Operation,
    PassContext,
    ShapeOnly,
    StringAttr,
    TensorType,
    UsageError,
    Value,
    Wants,
    cpu_function,
)
from tpuc.api.boundary import is_postprocess
from tpuc_ops.arrays import Array
from tpuc_ops.traits import Concatenates, StridedView, states

from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import FLOAT_SUMS, MODE

COMPUTE_TYPE = "compute_type"
"""Attribute of an operation: the float mode in which it is lowered, whatever the network's mode."""


@dataclass(frozen=True)
class Cells:
    """The lowerings and legalizations of a chip in one mode.

    `modes` overrides the mode of single operations by name (the quantize table). `float_sums` names the operations
    whose results are only read as floats. `cpu_ops` names the ops, or `all`, that the runtime may compute.
    """

    registry: Any
    chip: ChipDescription
    mode: str
    modes: Mapping[str, str] = field(default_factory=dict[str, str])
    float_sums: Collection[str] = ()
    cpu_ops: Collection[str] = ()

    @staticmethod
    def of(context: PassContext, pass_name: str, mode: str = "") -> Cells:
        """The cells for a run of a pass; raises UsageError without a chip, and for a mode that the chip does not
        have.
        """
        description = chip_of(context, pass_name).description
        mode = mode or str(context.find(MODE, "") or context.options.get("quantize") or "f32")
        if mode not in description.modes:
            raise UsageError(
                f"chip '{description.name}' has no mode '{mode}'. Its modes: {', '.join(description.modes)}."
            )
        table, sums = context.find(QUANTIZE_TABLE, {}), context.find(FLOAT_SUMS, frozenset())
        return Cells(context.registry, description, mode, table, sums, context.options.get("cpu_ops") or ())

    def mode_of(self, operation: Operation, usual: str | None = None) -> str:
        """The mode of an operation: its own, that of the quantize table, or the usual one."""
        own = operation.extra_attributes.get(COMPUTE_TYPE)
        if isinstance(own, StringAttr):
            return own.value
        usual = self.chip.compute_type if is_postprocess(operation) else usual or self.mode
        return self.modes.get(operation.name, usual)

    def lowering(self, op: Op, mode: str) -> Lowering[Any] | None:
        """The lowering of the chip or one of its families, for the op or for its kind."""
        entry = self.registry.lowering(self.chip, op, mode)
        return None if entry is None else entry.value

    def legalization(self, op: Op) -> Legalization[Any] | None:
        """The legalization of the chip, of one of its families, or the one for every chip."""
        entry = self.registry.legalization(self.chip, op)
        return None if entry is None else entry.value

    def cpu_function(self, operation: Operation) -> CpuFunction[Any] | None:
        """The function of the chip's runtime for such ops."""
        return cpu_function(self.registry, self.chip.owners, operation.op.name)

    def is_named(self, operation: Operation) -> bool:
        """Does `--cpu-ops` name its op, and not all of them?"""
        return _word(operation) in self.cpu_ops

    def goes_to_cpu(self, module: Module, operation: Operation) -> bool:
        """True if the runtime computes the node when the chip does not."""
        function = self.cpu_function(operation)
        named = {_word(operation), ALL_OPS} & set(self.cpu_ops)
        allowed = function is not None and (function.is_usual or is_postprocess(operation) or bool(named))
        return allowed and function is not None and _cpu_refusal(function, module, operation) is None

    def index_inputs(self, module: Module) -> dict[Operation, int]:
        """The inputs of the network that functions of the runtime read as indices, since the chip does not compute what
        they choose, and from how many elements the smallest of these chooses.
        """
        found: dict[Operation, int] = {}
        for operation in module.main.operations[:-1]:
            function = self.cpu_function(operation)
            if function is None or not function.index_inputs or not self._is_left(module, operation, function):
                continue
            for index in function.index_inputs:
                source = source_input(operation.operands[index])
                assert source is not None
                least = min(one.tensor.dims[0] for at, one in enumerate(operation.operands) if at != index)
                found[source] = min(found.get(source, least), least)
        return found

    def _is_left(self, module: Module, operation: Operation, function: CpuFunction[Any]) -> bool:
        """Does the chip refuse it, and may the runtime compute it, whatever else reads its indices?"""
        named = {_word(operation), ALL_OPS} & set(self.cpu_ops)
        if not (function.is_usual or named) or _cpu_refusal(function, module, operation, alone=False) is not None:
            return False
        mode = self.mode_of(operation)
        entry = self.lowering(operation.op, mode)
        return entry is None or entry.refuse(self.node(module, operation, mode)) is not None

    def reads_as_index(self, operation: Operation, place: int | None, inputs: Collection[Operation]) -> bool:
        """Does it choose by one of these inputs, at a place or any, through a function of the runtime?"""
        function = self.cpu_function(operation)
        places = function.index_inputs if function is not None else ()
        return any(source_input(operation.operands[one]) in inputs for one in places if place in (one, None))

    def cpu_way_out(self, module: Module, operation: Operation) -> str:
        """The advice after the refusal of a node: that the runtime could compute it and at what cost, or why not."""
        function = self.cpu_function(operation)
        if function is None:
            return ""
        reason = _cpu_refusal(function, module, operation)
        if reason is not None:
            return f" ('{function.function}' of the runtime cannot compute it either: {reason})"
        sent, got = (_float_bytes(values) for values in (operation.operands, operation.results[: function.results]))
        return (
            f" (--cpu-ops {_word(operation)} runs it as '{function.function}' of the runtime on the processor, which "
            f"reads {sent:,} B and writes {got:,} B while the TPU waits)"
        )

    def computes(self, op: Op, mode: str) -> bool:
        """True if there is a lowering or a legalization."""
        return self.lowering(op, mode) is not None or self.legalization(op) is not None

    def node(
        self, module: Module, operation: Operation, mode: str, operands: tuple[Value, ...] | None = None
    ) -> LoweringNode:
        """The node passed to a lowering or legalization; `operands`: lowered ones instead of the network's own."""
        node = operation.node()
        return LoweringNode(
            node.op,
            node.operand_types,
            node.result_types,
            node.name,
            operation.operands if operands is None else operands,
            tuple(module.constant(operand) for operand in operation.operands),
            mode,
            self.chip,
            tuple(result.name for result in operation.results),
            tuple(user for result in operation.results for user in users_of(result)),
            operation.name in self.float_sums,
            _made_of(operation),
            operation.name in self.float_sums and self._read_as_f32(module, operation),
        )

    def _read_as_f32(self, module: Module, operation: Operation) -> bool:
        """True if all readers of an operation's results want float32, or move them to readers that do."""
        uses = [use for result in operation.results for use in result.uses]
        return all(user is module.main.terminator or self._requires_f32(module, user, index) for user, index in uses)

    def _requires_f32(self, module: Module, user: Operation, index: int) -> bool:
        if states(user.op, StridedView, Concatenates) and user.name not in self.modes:
            return self._read_as_f32(module, user)
        mode = self.mode_of(user)
        entry, node = self.lowering(user.op, mode), self.node(module, user, mode)
        return entry is not None and entry.refuse(node) is None and entry.requires(node)[index] is Wants.FLOAT

    def refusal(self, operation: Operation, mode: str, reason: str) -> str:
        """The text of a refusal, without a full stop."""
        return f"node '{operation.name}': {operation.op.name} {mode} on {self.chip.name}: {reason}"


def _word(operation: Operation) -> str:
    """The name of an op on the command line."""
    return operation.op.name.partition(".")[2]


def source_input(value: Value) -> Operation | None:
    """The input of the network that a value is, maybe reshaped."""
    source = value.defining
    while source is not None and isinstance(source.op, ShapeOnly):
        source = source.operands[0].defining
    return source if source is not None and isinstance(source.op, NetworkInput) else None


def _cpu_refusal(function: CpuFunction[Any], module: Module, operation: Operation, *, alone: bool = True) -> str | None:
    """Why the runtime's function cannot compute a node; with `alone` nothing else may read its indices."""
    for index in function.integers:
        constant = module.constant(operation.operands[index])
        if constant is None or (constant < 0).any():
            return "its indices must be constants from 0 on"
    for index in function.index_inputs:
        source = source_input(operation.operands[index])
        if source is None:
            return "its indices must be an input of the network"
        if alone and any(user.op.name != operation.op.name or place != index for user, place in uses_of(source.result)):
            return "other ops read the input of its indices too"
    count = function.results
    if any(result.uses for result in operation.results[count:]):
        return f"only the first {count} of its {len(operation.results)} results come out"
    return function.refuse(operation.node())


def _float_bytes(values: Sequence[Value]) -> int:
    """Bytes of tensors stored as float32."""
    return sum(4 * value.tensor.size for value in values if not isinstance(value.type, NoneType))


def _made_of(operation: Operation) -> tuple[tuple[int, Node[Op]] | None, ...]:
    """For each operand, the node that computes it from a single other operand, and that operand."""
    places: dict[Value, int] = {}
    for index, operand in enumerate(operation.operands):
        places.setdefault(operand, index)
    producers = [operand.defining for operand in operation.operands]
    return tuple(
        (places[one.operands[0]], one.node())
        if one is not None and len(one.operands) == 1 and one.operands[0] in places
        else None
        for one in producers
    )


def users_of(value: Value) -> Iterator[Op]:
    """The ops that use a value, directly or after reshapes."""
    return (user.op for user, _ in uses_of(value))


def uses_of(value: Value) -> Iterator[tuple[Operation, int]]:
    """The uses of a value with operand positions, directly or after reshapes."""
    for user, index in value.uses:
        if isinstance(user.op, ShapeOnly):
            yield from uses_of(user.result)
        else:
            yield user, index


def check_results(kind: str, operation: Operation, culprit: object, results: object) -> None:
    """Raise BrokenPromise unless these values can replace the results of an operation."""
    subject = f"{kind} of {operation.op.name} '{operation.name}' returns"
    values = cast("Sequence[Any]", results) if isinstance(results, Sequence) else None
    if values is None or not all(isinstance(value, Value) for value in values):
        returned = [type(value).__name__ for value in values] if values is not None else f"a {_kind_of(results)}"
        raise BrokenPromise(f"{subject} {returned}; return a sequence of what the builder gave", culprit)
    if len(values) != len(operation.results):
        raise BrokenPromise(f"{subject} {len(values)} values; the op has {len(operation.results)} results", culprit)
    for value, result in zip(values, operation.results, strict=True):
        if isinstance(result.type, TensorType) and value.tensor.shape != result.type.shape:
            raise BrokenPromise(
                f"{subject} a value of {value.tensor.shape}; the op's result is {result.type.shape}", culprit
            )


def _kind_of(value: Any) -> str:
    return type(value).__name__


def is_kept(operation: Operation) -> bool:
    """True for constants, network inputs and absent values, which are the same on every chip."""
    return isinstance(operation.op, (Constant, NetworkInput)) or all(
        isinstance(result.type, NoneType) for result in operation.results
    )


def together(refusals: list[str]) -> str:
    """One message for many refusals."""
    more = f" (and {len(refusals) - 1} more: {'; '.join(refusals[1:])})" if len(refusals) > 1 else ""
    return f"{refusals[0]}{more}. Change the node, choose another mode for it, or another chip."


def as_array(array: Array) -> Array:
    """A C-ordered array; unlike `ascontiguousarray`, scalars stay scalars."""
    return np.asarray(array, order="C")
