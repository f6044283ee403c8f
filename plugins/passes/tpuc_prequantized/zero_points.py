"""Decide which values of a pre-quantized network keep their integers on chips without zero points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from tpuc.api import Constant, Module, NetworkInput, Operation, Return, TensorType, Uniform, Value, Wants
from tpuc_lower.lowering.cells import Cells, is_kept
from tpuc_ops import top
from tpuc_ops.quantized import KeepsScale

from tpuc_prequantized.common import computed_values
from tpuc_prequantized.stored_bytes import with_sign

Stored: TypeAlias = Mapping[Value, Uniform]

_SUMS = (top.Add, top.Sub)
"""Ops that chips compute by adding stored integers of one sign: a fact about their lowerings."""
_FLOATS = (Wants.FLOAT, Wants.INDEX, Wants.EXACT)


def kept_elements(module: Module, cells: Cells, floats: Collection[Value]) -> dict[Value, Uniform]:
    """The stored types: unsigned or signed bytes without a zero point where possible, else with one where all
    surrounding ops accept it. `floats`, values computed from floats, are left out: casts do not support zero points.
    """
    elements = {
        value: value.tensor.uniform
        for value in computed_values(module)
        if isinstance(value.tensor.element, Uniform) and value not in floats and _is_integral(value.tensor.element)
    }
    operations = [operation for operation in module.main.operations if not isinstance(operation.op, Constant)]
    accepting = {operation for operation in operations if _accepts(operation, module, cells)}
    moved = {
        value: stored
        for value, element in elements.items()
        if (stored := _with_point(value, element, accepting, module, cells)) is not None
    }
    plain = {value: stored for value, element in elements.items() if (stored := _without_point(element)) is not None}
    moved |= _of_one_sign(operations, moved)
    while loose := {value for operation in operations for value in _inconsistent(operation, moved, plain)}:
        moved = {value: stored for value, stored in moved.items() if value not in loose}
    return plain | moved


def _is_integral(element: Uniform) -> bool:
    """True if it uses all integers of its storage, where chips saturate."""
    return element.low is None and element.high is None


def _without_point(element: Uniform) -> Uniform | None:
    """The same integers as bytes with zero point 0, where possible."""
    both = (with_sign(element, unsigned=unsigned) for unsigned in (True, False))
    return next((stored for stored in both if not stored.zero_point), None)


def _with_point(
    value: Value, element: Uniform, accepting: Collection[Operation], module: Module, cells: Cells
) -> Uniform | None:
    """The same integers as bytes with a zero point, None where they need none or must not have one. They are unsigned,
    since a large zero point is more exact in a bias, unless they become floats. Inputs are bytes as in the network's
    file where ops compute with them directly.
    """
    producer = value.defining
    if producer is None:
        return None
    is_input = isinstance(producer.op, NetworkInput)
    if is_input and element.zero_point and _computes(value.users, accepting):
        return element
    if is_input and not element.zero_point:
        return None
    reads = [_reads_floats(user, index, module, cells) for user, index in value.uses]
    if not is_input and producer not in accepting:
        return None
    if not all(user in accepting or floats for (user, _), floats in zip(value.uses, reads, strict=True)):
        return None
    summed = any(_adds_two(operation) for operation in (producer, *value.users))
    plain = _without_point(element)
    if plain is not None and (plain.storage.is_unsigned or not summed):
        return None
    return with_sign(element, unsigned=summed or not any(reads))


def _computes(users: Iterable[Operation], accepting: Collection[Operation]) -> bool:
    """True if only ops with zero-point arithmetic read them, none of which requires a sign."""
    return all(user in accepting and not _is_particular(user) for user in users)


def _is_particular(operation: Operation) -> bool:
    return isinstance(operation.op, top.Concat) or _passes_on(operation)


def _passes_on(operation: Operation) -> bool:
    """True if its results hold the integers of its operands; between casts the scales may differ."""
    values = [value for value in (*operation.operands, *operation.results) if _is_integer(value)]
    return isinstance(operation.op, KeepsScale) and len({value.tensor.element for value in values}) == 1


def _adds_two(operation: Operation) -> bool:
    """True for a sum of computed values. With a constant, the operand may have either sign."""
    return isinstance(operation.op, _SUMS) and not any(operand.is_constant for operand in operation.operands)


def _accepts(operation: Operation, module: Module, cells: Cells) -> bool:
    """True if the chip computes it with zero points."""
    if is_kept(operation) or isinstance(operation.op, Return):
        return False
    mode = cells.mode_of(operation)
    rule = cells.lowering(operation.op, mode)
    if rule is None or mode != cells.mode:
        return False
    node = cells.node(module, operation, mode)
    return rule.refuse(node) is None and rule.takes_zero_points(node)


def _reads_floats(operation: Operation, index: int, module: Module, cells: Cells) -> bool:
    """True if the operand is cast to a float. A softmax is invariant to a common offset of its integers."""
    if isinstance(operation.op, (Return, top.Softmax)):
        return True
    mode = cells.mode_of(operation)
    rule = cells.lowering(operation.op, mode)
    return rule is not None and rule.requires(cells.node(module, operation, mode))[index] in _FLOATS


def _of_one_sign(operations: Collection[Operation], moved: Stored) -> dict[Value, Uniform]:
    """Values that get the sign of those that pass their integers on, or that they are passed to: none where sums of
    computed values are among them, else one where some become floats.
    """
    passing = [
        {value for value in (*operation.operands, *operation.results) if value in moved}
        for operation in operations
        if _passes_on(operation)
    ]
    around = {
        value
        for one in operations
        if _adds_two(one)
        for value in (*one.operands, *one.results)
        if value.defining is None or not isinstance(value.defining.op, NetworkInput)  # inputs are as in the file
    }
    summed = _passed(around & moved.keys(), passing)
    signed = _passed({value for value, stored in moved.items() if not stored.storage.is_unsigned}, passing) - summed
    return {value: with_sign(moved[value], unsigned=value in summed) for value in signed | summed}


def _passed(values: set[Value], passing: Collection[set[Value]]) -> set[Value]:
    """With those beside them, and beside these."""
    found = set(values)
    while neighbors := {value for one in passing if one & found for value in one} - found:
        found |= neighbors
    return found


def _inconsistent(operation: Operation, moved: Stored, plain: Stored) -> Iterator[Value]:
    """Values with a zero point beside others that are not stored like them: those of ops that pass integers on,
    and those that are added to or joined with what is calibrated.
    """
    values = [value for value in (*operation.operands, *operation.results) if _is_integer(value)]
    if not any(value in moved for value in values):
        return
    if _passes_on(operation):
        alike = all(value in moved for value in values) and len({moved[value] for value in values}) == 1
    elif _adds_two(operation) or isinstance(operation.op, top.Concat):
        alike = all(value in moved or value in plain for value in values)
    else:
        return
    if not alike:
        yield from (value for value in values if value in moved)


def _is_integer(value: Value) -> bool:
    return not value.is_constant and isinstance(value.type, TensorType) and value.tensor.is_quantized
