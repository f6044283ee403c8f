"""Give a lowered network's inputs and outputs the element types that a caller asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import (
    ElementType,
    Location,
    Module,
    NetworkInput,
    Operation,
    Pass,
    PassContext,
    ScalarType,
    TensorType,
    UsageError,
    Value,
    remove_dead,
)
from tpuc_ops import tpu
from tpuc_optimize.canonicalization.common import Names

from tpuc_lower.lowering.moves import unmoved

TYPES = ("f32", "f16", "bf16", "i32")
"""Types that inputs and outputs may have."""


@dataclass(frozen=True)
class SetBoundaryTypes(Pass):
    """Make inputs and outputs of `f32`, `f16`, `bf16` or `i32`, by position; an empty name leaves one as it is.

    A user of an input that needs another type gets a Cast; one that had a Cast to the input's new type reads the input
    itself, so that what was rounded before is not rounded twice. Ops that only move an input for such users move the
    new type.
    """

    name = "set-boundary-types"
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for types that are not known, and for more types than inputs or outputs."""
        inputs = [one for one in module.main.operations if isinstance(one.op, NetworkInput)]
        _check("input", self.inputs, len(inputs))
        _check("output", self.outputs, len(module.main.outputs))
        for operation, name in zip(inputs, self.inputs, strict=False):
            if name:
                _retype_input(module, operation, ScalarType(name))
        for index, name in enumerate(self.outputs):
            if name:
                _retype_output(module, index, ScalarType(name))
        remove_dead(module)
        module.main.update_type()
        return True


def _check(what: str, names: Sequence[str], count: int) -> None:
    if len(names) > count:
        raise UsageError(f"{len(names)} types of {what}s are given, and the network has {count} {what}s.")
    for name in names:
        if name and name not in TYPES:
            raise UsageError(f"'{name}' is not a type for an {what}; use one of {', '.join(TYPES)}.")


def _retype_input(module: Module, operation: Operation, element: ElementType) -> None:
    value, wide = operation.result, operation.result.tensor
    if wide.element == element:
        return
    casts, moves = _read_as(value, element)
    others = [(user, index) for user, index in value.uses if user not in casts and user not in moves]
    value.type = operation.operands[0].type = wide.with_element(element)
    for move in moves:
        move.result.type = move.result.tensor.with_element(element)
    for cast in casts:
        cast.result.replace_with(cast.operands[0])
        cast.erase()
    if others:
        block, widened = operation.block, _cast(module, value, wide)
        assert block is not None
        first = min((user for user, _ in others), key=block.position)  # inputs are loaded when they are needed
        block.insert_before(first, widened)
        for user, index in others:
            user.set_operand(index, widened.result)


def _read_as(value: Value, element: ElementType) -> tuple[list[Operation], list[Operation]]:
    """Return the casts of a value to `element`, and the moves whose results have no other readers than such casts."""
    casts: list[Operation] = []
    moves: list[Operation] = []
    for user in dict.fromkeys(value.users):
        if isinstance(user.op, tpu.Cast) and user.result.tensor.element == element:
            casts.append(user)
        elif _moves(user, value):
            inner = _read_as(user.result, element)
            if all(reader in (*inner[0], *inner[1]) for reader in user.result.users):
                casts += inner[0]
                moves += [user, *inner[1]]
    return casts, moves


def _moves(user: Operation, value: Value) -> bool:
    """True if an operation only rearranges the elements of a value, or takes a part of them."""
    given = [one for one in user.operands if isinstance(one.type, TensorType)]
    if given != [value] or len(user.results) != 1 or unmoved(user.result) is user.result:
        return False
    return user.result.tensor.element == value.tensor.element


def _retype_output(module: Module, index: int, element: ElementType) -> None:
    terminator = module.main.terminator
    value = terminator.operands[index]
    producer = value.defining
    assert producer is not None
    if value.tensor.element == element:
        return
    if isinstance(producer.op, tpu.Cast) and producer.operands[0].tensor.element == element:
        terminator.set_operand(index, producer.operands[0])
    else:
        assert producer.block is not None
        narrowed = _cast(module, value, value.tensor.with_element(element))
        terminator.set_operand(index, producer.block.insert_after(producer, narrowed).result)


def _cast(module: Module, value: Value, wanted: TensorType) -> Operation:
    name = Names(module).new(f"{value.name}_{wanted.storage}")
    return Operation(tpu.Cast(with_scale=True), [value], [wanted], Location((name,)))
