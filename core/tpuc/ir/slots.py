"""Operands and results that the text of an op lists although the op does not have them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.ir.dialect import OpResolver
from tpuc.ir.operation import Function, Module, Operation, Value
from tpuc.ir.traits import Absent
from tpuc.ir.types import NoneType

UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""The exceptions that `infer` raises for operands that do not fit an op."""


def padding_of(operation: Operation) -> tuple[int, int]:
    """The number of none-typed operands and results that its text lists after the real ones."""
    slots = operation.op.slots
    if slots is None:
        return 0, 0
    return max(0, slots.operands - len(operation.operands)), max(0, slots.results - len(operation.results))


@dataclass(frozen=True)
class AbsentOperand:
    """The value that stands for absent operands in the text of a function."""

    op: str
    """The name of the op that produces it."""
    value: Value | None
    """The function's own value, if it is defined early enough; else the text starts with such an operation."""

    @staticmethod
    def of(function: Function) -> AbsentOperand | None:
        """The absent operand of a function; None where no operation needs it."""
        first: Value | None = None
        for operation in function.operations:
            if isinstance(operation.op, Absent) and operation.result.uses and first is None:
                first = operation.result
            for inner in operation.walk():
                slots = inner.op.slots
                if slots is not None and padding_of(inner)[0]:
                    return AbsentOperand(slots.absent, first)
        return None


def settle_absent(module: Module, resolve: OpResolver) -> None:
    """Restore the real operands of operations in a parsed module: the inverse of printing.

    Removes absent operands that exist only in text, and adds those that the text omits but the op has.
    """
    lists = [operation for operation in module.walk() if operation.op.slots is not None]
    dropped = [value for operation in lists for value in _dropped(operation)]
    for value in dict.fromkeys(dropped):
        absent = value.defining
        if absent is not None and not value.uses and not absent.name:
            absent.erase()
    for operation in lists:
        _fill(operation, resolve)
    for operation in module.walk():
        _state_results(operation)


def _state_results(operation: Operation) -> None:
    """Unused results may have type none in text; give the op its real result types."""
    unstated = [value for value in operation.results if _is_unused_none(value)]
    if not unstated or isinstance(operation.op, Absent):
        return
    with contextlib.suppress(*UNFIT):  # the verifier says what does not fit
        inferred = operation.op.infer(operation.node().operand_types)
        if inferred is not None and len(inferred) == len(operation.results):
            for value in unstated:
                value.type = inferred[value.index]


def _fill(operation: Operation, resolve: OpResolver) -> None:
    slots = operation.op.slots
    block = operation.block
    if slots is None or block is None or len(operation.operands) >= slots.kept:
        return
    definition = resolve(slots.absent)
    if definition is None:
        return
    absent = block.insert_before(operation, Operation(definition(), (), [NoneType()]))
    operation.set_operands([*operation.operands, *[absent.result] * (slots.kept - len(operation.operands))])


def _dropped(operation: Operation) -> Sequence[Value]:
    """The absent operands that were removed."""
    slots = operation.op.slots
    if slots is None:
        return ()
    while slots.results and len(operation.results) > 1 and not operation.results[-1].uses:
        operation.results.pop()
    operands = operation.operands
    kept = len(operands)
    while kept > slots.kept and isinstance(operands[kept - 1].type, NoneType):
        kept -= 1
    if kept < len(operands):
        operation.set_operands(operands[:kept])
    return operands[kept:]


def _is_unused_none(value: Value) -> bool:
    return isinstance(value.type, NoneType) and not value.uses
