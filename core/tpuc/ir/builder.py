"""Create operations: an insertion point, inferred result types, new constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tpuc.errors import InvalidModel
from tpuc.ir.dtypes import scalar_of
from tpuc.ir.op import ABSENT, Op
from tpuc.ir.operation import UNKNOWN_LOCATION, Block, Location, Module, Operation, Region, Value
from tpuc.ir.traits import Absent, Constant
from tpuc.ir.types import ElementType, NoneType, ScalarType, TensorType, Type

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

ResultTypes: TypeAlias = "Type | Sequence[Type] | None"
"""The type of a single result, of several, or None to infer them."""


class Builder:
    """Inserts operations into a block of a module, at its end or before another operation.

    `constant` and `absent` are the ops for weights and for absent operands; by default those that the module already
    uses.
    """

    def __init__(
        self,
        module: Module,
        block: Block | None = None,
        before: Operation | None = None,
        *,
        constant: Op | None = None,
        absent: Op | None = None,
    ) -> None:
        self.module = module
        self.block = block if block is not None else (before.block if before is not None else None)
        self.before = before
        self._taken: set[str] | None = None
        self._constant = constant
        self._absent = absent

    def at_end_of(self, block: Block) -> None:
        """Insert at the end of a block from now on."""
        self.block, self.before = block, None

    def at(self, operation: Operation) -> None:
        """Insert just before an operation from now on."""
        self.block, self.before = operation.block, operation

    def insert(self, operation: Operation) -> Operation:
        """Put a finished operation at the insertion point."""
        if self.block is None:
            raise ValueError("the builder has no insertion point; call at_end_of or at first")
        self.take(operation.location)
        if self.before is None:
            return self.block.append(operation)
        return self.block.insert_before(self.before, operation)

    def operation(
        self, op: Op, operands: Sequence[Value] = (), result_types: ResultTypes = None, name: str | None = None
    ) -> Operation:
        """Create and insert an operation; `result_types` None infers them."""
        types = infer_types(op, operands, name or "") if result_types is None else _as_tuple(result_types)
        location = Location((name,)) if name else UNKNOWN_LOCATION
        return self.insert(Operation(op, operands, types, location))

    def build(
        self, op: Op, operands: Sequence[Value] = (), result_types: ResultTypes = None, name: str | None = None
    ) -> Value:
        """Like `operation`, for an op with one result, which is returned."""
        return self.operation(op, operands, result_types, name).result

    __call__ = build

    def build_many(
        self, op: Op, operands: Sequence[Value] = (), result_types: ResultTypes = None, name: str | None = None
    ) -> tuple[Value, ...]:
        """Like `operation`; returns all results."""
        return tuple(self.operation(op, operands, result_types, name).results)

    def enclose(
        self, op: Op, body: Block, operands: Sequence[Value], result_types: Sequence[Type], names: Sequence[str]
    ) -> Operation:
        """Create and insert an operation whose region is `body`; one name per result."""
        location = Location(tuple(names))
        return self.insert(Operation(op, operands, result_types, location, regions=(Region((body,)),)))

    def weight(self, name: str, array: Array, element: ElementType | str | None = None) -> Value:
        """A new constant. `element` None follows the array's dtype; a number is appended to a name already taken."""
        if element is None:
            element = scalar_of(array.dtype)
        elif isinstance(element, str):
            element = ScalarType(element)
        values = self._names_of_values()
        name = free_name(name, lambda one: one in values or one in self.module.weights)
        self.module.weights[name] = array
        return self.build(self._constant_op(), (), TensorType(tuple(array.shape), element), name)

    def take(self, location: Location) -> None:
        """Reserve names that no new weight may have."""
        if self._taken is not None:
            self._taken.update(location.names)

    def _names_of_values(self) -> set[str]:
        """Names of all values, collected at the first weight and kept up to date since."""
        if self._taken is None:
            self._taken = {value.name for operation in self.module.walk() for value in operation.results}
        return self._taken

    def none(self) -> Value:
        """The value of an absent operand."""
        return self.build(self._absent_op(), (), NoneType())

    def _constant_op(self) -> Op:
        if self._constant is None:
            self._constant = self._op_with(Constant, "constant")
        return self._constant

    def _absent_op(self) -> Op:
        if self._absent is None:
            self._absent = self._op_with(Absent, "absent operand")
        return self._absent

    def _op_with(self, trait: type, what: str) -> Op:
        for operation in self.module.walk():
            if isinstance(operation.op, trait):
                return operation.op
        raise ValueError(f"the module has no {what} to take the op from; give it to the builder")


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """`name`, or the first of `name_1`, `name_2`, ... that is not taken."""
    free, number = name, 0
    while is_taken(free):
        number += 1
        free = f"{name}_{number}"
    return free


def infer_types(op: Op, operands: Sequence[Value], name: str = "") -> tuple[TensorType, ...]:
    """Result types by the op's own rule; raises InvalidModel when the operands do not fit or it has no rule."""
    types = tuple(value.type if isinstance(value.type, TensorType) else ABSENT for value in operands)
    try:
        inferred = op.infer(types)
    except ValueError as error:
        raise InvalidModel(f"op '{name}' ({op.name}): {error}") from error
    if inferred is None:
        raise InvalidModel(f"op '{name}' ({op.name}): its result types cannot be inferred; state them")
    return inferred


def _as_tuple(types: Type | Sequence[Type]) -> tuple[Type, ...]:
    return tuple(types) if isinstance(types, Sequence) else (types,)
