"""The graph: values, operations, blocks, regions and modules in SSA form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from tpuc.errors import InvalidModel
from tpuc.ir.attributes import Attribute
from tpuc.ir.op import ABSENT, Node, Op, UnregisteredOp
from tpuc.ir.traits import Constant
from tpuc.ir.types import FunctionType, TensorType, Type
from tpuc.ir.weights import Weights

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Location:
    """The origin of a value. `names` is one name, several for `loc(fused["a", "b"])`, none for unknown.

    `text` keeps other locations (file:line:column, call sites) unchanged.
    """

    names: tuple[str, ...] = ()
    text: str | None = None

    @property
    def name(self) -> str:
        """The first name, or the empty string."""
        return self.names[0] if self.names else ""


UNKNOWN_LOCATION = Location()


class Uses(Sequence["tuple[Operation, int]"]):
    """The uses of a value, as (operation, operand index) in order of first use; removal does not search."""

    __slots__ = ("_places",)

    def __init__(self, places: Iterable[tuple[Operation, int]] = ()) -> None:
        self._places: dict[tuple[Operation, int], None] = dict.fromkeys(places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[Operation, int]]:
        return iter(self._places)

    def __contains__(self, place: object) -> bool:
        return place in self._places

    @overload
    def __getitem__(self, index: int) -> tuple[Operation, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Operation, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Operation, int] | list[tuple[Operation, int]]:
        return list(self._places)[index]

    def append(self, place: tuple[Operation, int]) -> None:
        """Add a use."""
        self._places[place] = None

    def remove(self, place: tuple[Operation, int]) -> None:
        """Remove a use; raises KeyError when there is none."""
        del self._places[place]


class Value:
    """One SSA value: a result of an operation or an argument of a block."""

    __slots__ = ("_uses", "index", "location", "owner", "type")

    def __init__(self, type: Type, owner: Operation | Block, index: int) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.location = UNKNOWN_LOCATION  # of block arguments only
        self._uses = Uses()

    @property
    def uses(self) -> Uses:
        """The uses of the value; may be set from pairs when a whole graph is replaced."""
        return self._uses

    @uses.setter
    def uses(self, places: Iterable[tuple[Operation, int]]) -> None:
        self._uses = Uses(places)

    @property
    def tensor(self) -> TensorType:
        """Its type as a tensor; raises TypeError for anything else."""
        if not isinstance(self.type, TensorType):
            raise TypeError(f"value '{self.name}' is not a tensor")
        return self.type

    @property
    def name(self) -> str:
        """The name of this value: its part of the owner's location."""
        if isinstance(self.owner, Block):
            return self.location.name
        names = self.owner.location.names
        return names[self.index] if self.index < len(names) else (names[0] + f"_r{self.index}" if names else "")

    @property
    def defining(self) -> Operation | None:
        """The operation that computes it, None for block arguments."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def is_constant(self) -> bool:
        """True for a weight of the module. The array may be in a missing file."""
        return self.defining is not None and isinstance(self.defining.op, Constant)

    @property
    def users(self) -> list[Operation]:
        """The operations that use it, each once, in order of first use."""
        return list(dict.fromkeys(user for user, _ in self.uses))

    def replace_with(self, other: Value) -> None:
        """Replace all uses of the value by `other`."""
        for user, index in list(self.uses):
            user.set_operand(index, other)


class Operation:
    """A node of the graph: an op with operands, results, regions, location and attributes the op does not know."""

    __slots__ = ("_operands", "block", "extra_attributes", "location", "op", "position_hint", "regions", "results")

    def __init__(
        self,
        op: Op,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        location: Location = UNKNOWN_LOCATION,
        extra_attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> None:
        self.op = op
        self.location = location
        self.extra_attributes = extra_attributes if extra_attributes is not None else {}
        self.block: Block | None = None
        self.position_hint = 0  # where it was in its block when somebody last looked
        self.regions = list(regions)
        for region in self.regions:
            region.parent = self
        self.results = [Value(type, self, index) for index, type in enumerate(result_types)]
        self._operands = list(operands)
        for index, operand in enumerate(self._operands):
            operand.uses.append((self, index))

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values it uses."""
        return tuple(self._operands)

    @property
    def name(self) -> str:
        """The name of its location."""
        return self.location.name

    @property
    def result(self) -> Value:
        """Its first (often only) result."""
        return self.results[0]

    @property
    def is_registered(self) -> bool:
        """True if the op definition is known."""
        return not isinstance(self.op, UnregisteredOp)

    def set_operand(self, index: int, value: Value) -> None:
        """Replace an operand and update use lists."""
        self._operands[index].uses.remove((self, index))
        self._operands[index] = value
        value.uses.append((self, index))

    def set_operands(self, values: Sequence[Value]) -> None:
        """Replace all operands."""
        for index, operand in enumerate(self._operands):
            operand.uses.remove((self, index))
        self._operands = list(values)
        for index, value in enumerate(self._operands):
            value.uses.append((self, index))

    def erase(self) -> None:
        """Remove it from its block; raises ValueError while a result is used."""
        if any(result.uses for result in self.results):
            raise ValueError(f"operation '{self.name}' is still used")
        self.set_operands(())
        for region in self.regions:
            region.drop_uses()
        if self.block is not None:
            self.block.remove(self)

    def node(self) -> Node:
        """The read-only view that hooks receive."""
        return Node(
            self.op,
            tuple(v.type if isinstance(v.type, TensorType) else ABSENT for v in self._operands),
            tuple(r.type for r in self.results if isinstance(r.type, TensorType)),
            self.name,
        )

    def walk(self) -> Iterator[Operation]:
        """This operation and everything inside its regions, in order."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                for operation in list(block.operations):
                    yield from operation.walk()

    def captured(self) -> list[Value]:
        """Values from outside that its regions use, each once, in order of first use."""
        inside = [inner for inner in self.walk() if inner is not self]
        blocks = [block for owner in (self, *inside) for region in owner.regions for block in region.blocks]
        own = {value for block in blocks for value in block.arguments}
        own.update(value for inner in inside for value in inner.results)
        return list(dict.fromkeys(value for inner in inside for value in inner.operands if value not in own))


_NEAR = 32
"""Distance from an operation's last known index that is searched before all are renumbered."""


class Block:
    """A list of operations with arguments."""

    __slots__ = ("arguments", "operations", "parent")

    def __init__(self, argument_types: Sequence[Type] = ()) -> None:
        self.arguments = [Value(type, self, index) for index, type in enumerate(argument_types)]
        self.operations: list[Operation] = []
        self.parent: Region | None = None

    def append(self, operation: Operation) -> Operation:
        """Add at the end."""
        operation.block = self
        operation.position_hint = len(self.operations)
        self.operations.append(operation)
        return operation

    def insert(self, position: int, operation: Operation) -> Operation:
        """Add at a position."""
        operation.block = self
        operation.position_hint = position
        self.operations.insert(position, operation)
        return operation

    def insert_before(self, anchor: Operation, operation: Operation) -> Operation:
        """Add just before `anchor`."""
        return self.insert(self.position(anchor), operation)

    def insert_after(self, anchor: Operation, operation: Operation) -> Operation:
        """Add just after `anchor`."""
        return self.insert(self.position(anchor) + 1, operation)

    def remove(self, operation: Operation) -> None:
        """Remove an operation; its uses of other values remain."""
        del self.operations[self.position(operation)]
        operation.block = None

    def position(self, operation: Operation) -> int:
        """The index of an operation; raises ValueError when it is not in the block.

        Searches near its last known index first, since insertions elsewhere shift it by a few places; otherwise
        renumbers all.
        """
        operations = self.operations
        seen = operation.position_hint
        if seen < len(operations) and operations[seen] is operation:
            return seen
        for position in range(max(seen - _NEAR, 0), min(seen + _NEAR, len(operations))):
            if operations[position] is operation:
                return position
        for position, other in enumerate(operations):
            other.position_hint = position
        if operation.block is not self or operations[operation.position_hint] is not operation:
            raise ValueError(f"operation '{operation.name}' is not in this block")
        return operation.position_hint


class Region:
    """A list of blocks."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Sequence[Block] = ()) -> None:
        self.blocks = list(blocks)
        self.parent: Operation | Function | None = None
        for block in self.blocks:
            block.parent = self

    def drop_uses(self) -> None:
        """Drop all uses by operations inside, before the region is discarded."""
        for block in self.blocks:
            for operation in block.operations:
                operation.set_operands(())
                for region in operation.regions:
                    region.drop_uses()


@dataclass(eq=False)
class Function:
    """`func.func @name(...)`: one region of one block that ends in a return."""

    name: str
    type: FunctionType
    body: Block
    attributes: dict[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    location: Location = UNKNOWN_LOCATION

    def __post_init__(self) -> None:
        Region([self.body]).parent = self

    @property
    def operations(self) -> list[Operation]:
        """The operations of its body, the return included."""
        return self.body.operations

    @property
    def terminator(self) -> Operation:
        """The return."""
        return self.body.operations[-1]

    @property
    def inputs(self) -> list[Value]:
        """Its arguments."""
        return self.body.arguments

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values it returns."""
        return self.terminator.operands

    def update_type(self) -> None:
        """Update the declared type after a pass changed arguments or returned values."""
        self.type = FunctionType(tuple(a.type for a in self.inputs), tuple(v.type for v in self.outputs))


@dataclass(eq=False)
class Module:
    """`module @name attributes {...} { functions, nested modules }` with its weights.

    `weights` is the npz file named by `module.weight_file`, keyed by location name; it is read on first use.
    """

    name: str
    attributes: dict[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    functions: list[Function] = field(default_factory=list["Function"])
    modules: list[Module] = field(default_factory=list["Module"])
    location: Location = UNKNOWN_LOCATION
    weights: Weights = field(default_factory=Weights)

    @property
    def main(self) -> Function:
        """The function `main`, of this module or of the only nested one; raises InvalidModel when there is none."""
        for function in self.functions:
            if function.name == "main":
                return function
        for module in self.modules:
            return module.main
        raise InvalidModel(f"module '{self.name}' has no function 'main' to run; name one so")

    def constant(self, value: Value) -> npt.NDArray[Any] | None:
        """The array of a weight, None for a computed or absent value."""
        return self.weights[value.name] if value.is_constant else None

    def walk(self) -> Iterator[Operation]:
        """Every operation of every function, in order."""
        for module in self.modules:
            yield from module.walk()
        for function in self.functions:
            for operation in list(function.operations):
                yield from operation.walk()

    def verify(self) -> None:
        """Check SSA, types and attributes; raises VerifyError."""
        for rule in MODULE_RULES:
            rule(self)

    def clone(self) -> Module:
        """A deep copy. Weight arrays are shared, their table is not, except between a module and the ones inside it."""
        return _cloned_module(self, {})


MODULE_RULES: list[Callable[[Module], None]] = []
"""Rules checked by `Module.verify`, each raising VerifyError; `tpuc.ir.verifier` adds the general ones."""


def _cloned_function(function: Function) -> Function:
    """A deep copy of one function."""
    values: dict[Value, Value] = {}
    body = _cloned_block(function.body, values)
    return Function(function.name, function.type, body, dict(function.attributes), function.location)


def _cloned_module(module: Module, tables: dict[int, Weights]) -> Module:
    weights = tables.get(id(module.weights))
    if weights is None:
        weights = tables[id(module.weights)] = module.weights.copy()
    return Module(
        module.name,
        dict(module.attributes),
        [_cloned_function(function) for function in module.functions],
        [_cloned_module(nested, tables) for nested in module.modules],
        module.location,
        weights,
    )


def _cloned_block(block: Block, values: dict[Value, Value]) -> Block:
    copy = Block([argument.type for argument in block.arguments])
    for argument, twin in zip(block.arguments, copy.arguments, strict=True):
        twin.location = argument.location
        values[argument] = twin
    later: list[tuple[Operation, Operation]] = []
    for operation in block.operations:
        twin = copy.append(_cloned_operation(operation, values))
        if any(operand not in values for operand in operation.operands):
            later.append((operation, twin))
    for operation, twin in later:  # used before they were defined
        twin.set_operands([values.get(operand, operand) for operand in operation.operands])
    return copy


def _cloned_operation(operation: Operation, values: dict[Value, Value]) -> Operation:
    copy = Operation(
        operation.op,
        [values.get(operand, operand) for operand in operation.operands],
        [result.type for result in operation.results],
        operation.location,
        dict(operation.extra_attributes),
    )
    values.update(zip(operation.results, copy.results, strict=True))
    for region in operation.regions:
        twin = Region([_cloned_block(block, values) for block in region.blocks])
        twin.parent = copy
        copy.regions.append(twin)
    return copy
