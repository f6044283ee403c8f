"""Rewrites of executor graphs that keep dead values dead: pruning, merging of islands, folding within islands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from tpuc.api import Block, Location, Module, Operation, OpRegion, ScalarType, TensorType, Value
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.constants import constant, constant_array
from tpuc_tensorflow.dialects.tf import definition, is_tf
from tpuc_tensorflow.dialects.types import CONTROL, is_control
from tpuc_tensorflow.evaluation.blocks import run_operation
from tpuc_tensorflow.evaluation.kernels import KERNELS
from tpuc_tensorflow.evaluation.storage import dtype_of

_STATEFUL = ("Assign", "Print", "Random", "Resource", "Variable")


def graphs_of(module: Module) -> list[Operation]:
    """Return every graph of a module."""
    return [operation for operation in module.walk() if isinstance(operation.op, ex.Graph)]


def _body(graph: Operation) -> Block:
    return graph.regions[0].blocks[0]


# Pruning


def prune(graph: Operation) -> bool:
    """Remove what the fetch does not need, by data or by control. Returns True if there was anything."""
    block = _body(graph)
    needed = _needed(block)
    unneeded = [operation for operation in block.operations if operation not in needed]
    for operation in unneeded:  # a sink and its source need each other
        operation.set_operands(())
        for region in operation.regions:
            region.drop_uses()
    for operation in unneeded:
        block.remove(operation)
    return bool(unneeded)


def _needed(block: Block) -> set[Operation]:
    senders = {op.op.tensor_name: op for op in block.operations if isinstance(op.op, ex.Send)}
    found: set[Operation] = set()
    waiting = [block.operations[-1]]
    while waiting:
        operation = waiting.pop()
        if operation in found or operation.block is not block:
            continue
        found.add(operation)
        used = (value.defining for value in (*operation.operands, *operation.captured()))
        waiting += [one for one in used if one is not None]
        if isinstance(operation.op, ex.Source):
            waiting += operation.results[1].users
        if isinstance(operation.op, ex.Recv) and operation.op.tensor_name in senders:
            waiting.append(senders[operation.op.tensor_name])
    return found


# Larger islands


def coarsen(graph: Operation) -> bool:
    """Merge islands that are dead together: one that only the other uses, or one that uses nothing but the other."""
    block = _body(graph)
    changed = False
    while (pair := _pair(block)) is not None:
        _join(block, *pair)
        changed = True
    return changed


def _pair(block: Block) -> tuple[Operation, Operation] | None:
    """Return an island and a later one that uses it, if they may be merged."""
    for later in block.operations:
        if not isinstance(later.op, ex.Island):
            continue
        used = dict.fromkeys(value.defining for value in (*later.operands, *later.captured()))
        before = [one for one in used if one is not None and one.block is block]
        for first in before:
            if isinstance(first.op, ex.Island) and (before == [first] or _is_used_by(first, later)):
                return first, later
    return None


def _is_used_by(first: Operation, later: Operation) -> bool:
    """True if only the other island uses results of the first, so that nobody notices if both are dead."""
    users = {_owner(user, later) for result in first.results for user in result.users}
    inside = first.regions[0].blocks[0].operations
    return users == {later} and not any(_is_stateful(operation) for operation in inside)


def _owner(user: Operation, later: Operation) -> Operation:
    """Return the island whose region contains a user, if it is that one; else the user."""
    return later if user in set(later.walk()) else user


def _is_stateful(operation: Operation) -> bool:
    return operation.op.name.removeprefix("tf.").startswith(_STATEFUL)


def _join(block: Block, first: Operation, later: Operation) -> None:
    """Merge two islands, at the first one's position if the other needs nothing else, else at the other's."""
    inner = Block()
    parts = [one.regions[0].blocks[0] for one in (first, later)]
    ends = [part.operations[-1] for part in parts]
    yielded = [value for end in ends for value in end.operands]
    results = [value for one in (first, later) for value in one.results[:-1]]
    for part, end in zip(parts, ends, strict=True):
        end.set_operands(())
        for operation in part.operations[:-1]:
            inner.append(operation)
    controls = [v for v in (*first.operands, *later.operands) if v.defining is not first]
    inside = set(inner.operations)
    known = dict(zip(results, yielded, strict=True))
    _use_within(inside, known)
    kept = [value for value in results if any(user not in inside for user in value.users) or not value.uses]
    kept = [value for value in kept if value.uses]
    inner.append(Operation(ex.Yield(), [_resolved(known, value) for value in kept], (), later.location))
    types = [*(value.type for value in kept), CONTROL]
    joined = Operation(ex.Island(), list(dict.fromkeys(controls)), types, later.location, regions=[OpRegion([inner])])
    others = {value.defining for value in (*later.operands, *joined.captured())} - {first, None}
    needs_more = any(one is not None and one.block is block and one is not first for one in others)
    block.insert_before(later if needs_more else first, joined)
    for value, new in zip(kept, joined.results, strict=False):
        value.replace_with(new)
    for one in (first, later):
        one.results[-1].replace_with(joined.results[-1])
    for one in (later, first):
        one.set_operands(())
        block.remove(one)


def _resolved(known: dict[Value, Value], value: Value) -> Value:
    while value in known:
        value = known[value]
    return value


def _use_within(inside: set[Operation], known: dict[Value, Value]) -> None:
    """Replace uses of the old islands' results inside the new island by the yielded values."""
    for operation in inside:
        for one in operation.walk():
            for index, value in enumerate(one.operands):
                if value in known:
                    one.set_operand(index, _resolved(known, value))


# Constants


def fold(graph: Operation, module: Module) -> bool:
    """Fold constants within islands, and `x - x`. Returns True if anything changed.

    A constant is never dead, so a value that the island no longer captures becomes a control dependency: otherwise the
    island would be live in a branch that is not taken. For floats, `x - x` is not constant: it is NaN for infinities.
    """
    changed = False
    for island in [one for one in _body(graph).operations if isinstance(one.op, ex.Island)]:
        before = island.captured()
        if _fold_within(island, module):
            _depend_on(island, [value for value in before if value not in island.captured()])
            changed = True
    return changed


def _fold_within(island: Operation, module: Module) -> bool:
    block = island.regions[0].blocks[0]
    changed = False
    for operation in block.operations[:-1]:
        if operation.regions or is_tf(operation, "Const") or len(operation.results) != 1:
            continue
        array = _constant_of(operation, module)
        if array is None or operation.result.type != _type_of(operation, array):
            continue
        made = constant(array, module, operation.name)
        made.results[0].type = operation.result.type
        block.insert_before(operation, made)
        operation.result.replace_with(made.result)
        operation.erase()
        changed = True
    _drop_unused(block)
    return changed


def _type_of(operation: Operation, array: Array) -> object:
    """Return the type that the result may keep: unranked, of this shape, or a scalar."""
    type = operation.result.type
    return type if not isinstance(type, TensorType) or type.shape in (None, array.shape) else None


def _drop_unused(block: Block) -> None:
    for operation in reversed(block.operations[:-1]):
        if is_tf(operation, "Const") and not operation.result.uses:
            operation.erase()


def _constant_of(operation: Operation, module: Module) -> Array | None:
    name = operation.op.name.removeprefix("tf.")
    if name == "Sub" and operation.operands[0] is operation.operands[1]:
        return _zero_like(operation.operands[0])
    if name not in KERNELS or not operation.operands:
        return None
    arrays = [_array(value, module) for value in operation.operands]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        return None
    try:
        (result,) = run_operation(operation, dict(zip(operation.operands, known, strict=True)), module)
    except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError):
        return None  # it fails where it runs, and perhaps never does
    return result


def _zero_like(value: Value) -> Array | None:
    dtype = dtype_of(value.type)
    if dtype is None or dtype.kind not in "iu":
        return None
    match value.type:
        case TensorType(shape=tuple() as shape) if min(shape, default=0) >= 0:
            return np.zeros(shape, dtype)
        case ScalarType():
            return np.zeros((), dtype)
        case _:
            return None


def _array(value: Value, module: Module) -> Array | None:
    """Return the array of a constant, also of one that a surrounding island yields."""
    operation = value.defining
    if operation is not None and isinstance(operation.op, ex.Island):
        end = operation.regions[0].blocks[0].operations[-1]
        operation = end.operands[value.index].defining if value.index < len(end.operands) else None
    return None if operation is None else constant_array(operation, module)


def _depend_on(island: Operation, values: Iterable[Value]) -> None:
    """Make the island dead if one of the values is."""
    controls: Sequence[Value] = [control for value in values if (control := _control_of(value, island)) is not None]
    new = [control for control in dict.fromkeys(controls) if control not in island.operands]
    island.set_operands([*island.operands, *new])


def _control_of(value: Value, island: Operation) -> Value | None:
    """Return a control dependency that is dead if the value is; that of a Switch is not, so an identity provides
    one.
    """
    operation = value.defining
    if operation is None or operation.block is not island.block:
        return None
    if is_control(value.type):
        return value
    if not isinstance(operation.op, (ex.Switch, ex.SwitchN, ex.Source)):
        return operation.results[-1]
    block = Block()
    inner = block.append(Operation(definition("Identity")(), [value], [value.type], Location()))
    block.append(Operation(ex.Yield(), inner.results))
    made = Operation(ex.Island(), (), [value.type, CONTROL], Location(), regions=[OpRegion([block])])
    assert island.block is not None
    return island.block.insert_before(island, made).results[-1]
