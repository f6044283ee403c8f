"""The interpreter's plan: steps in order, one slot per value, and the last use of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tpuc.errors import InvalidModel
from tpuc.ir.builder import free_name
from tpuc.ir.builtin import Call, Return
from tpuc.ir.op import Node, StructuredOp
from tpuc.ir.operation import Block, Function, Module, Operation, Value
from tpuc.ir.traits import Constant, NetworkInput
from tpuc.ir.types import NoneType, TensorType, Type, of_tensor

ABSENT_SLOT = 0
"""The slot of absent operands."""


@dataclass(frozen=True)
class Step:
    """One evaluation. `frees` are the slots that no later step reads.

    `operands` are the operation's, followed for a structured op by the slots of the values its regions capture.
    """

    operation: Operation
    node: Node
    operands: tuple[int, ...]
    results: tuple[int, ...]
    frees: tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One argument of the network."""

    name: str
    type: TensorType
    slot: int


@dataclass(frozen=True)
class Plan:
    """Everything that does not depend on the data. `names` holds the named values by slot."""

    inputs: tuple[Input, ...]
    constants: tuple[tuple[int, Operation], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, int], ...]
    output_types: tuple[Type, ...]
    names: dict[int, str]
    slots: int


def make_plan(module: Module) -> Plan:
    """Flatten `main`: calls and in-place regions become part of one list of steps."""
    owner = module
    while not any(function.name == "main" for function in owner.functions) and owner.modules:
        owner = owner.modules[0]
    return _Planner({function.name: function for function in owner.functions}).plan(owner.main)


@dataclass
class _Planner:
    functions: dict[str, Function]
    names: dict[int, str] = field(default_factory=dict[int, str])
    constants: list[tuple[int, Operation]] = field(default_factory=list[tuple[int, Operation]])
    steps: list[tuple[Operation, tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=list[tuple[Operation, tuple[int, ...], tuple[int, ...]]]
    )
    active: list[str] = field(default_factory=list[str])
    slots: int = ABSENT_SLOT + 1

    def plan(self, main: Function) -> Plan:
        inputs: list[Input] = []
        slot_of: dict[Value, int] = {}
        for index, argument in enumerate(main.inputs):
            type_ = of_tensor(argument.type)
            if not isinstance(type_, TensorType):
                raise InvalidModel(f"argument {index} of 'main' is neither a tensor nor a number; make it one")
            slot_of[argument] = self._new_slot()
            inputs.append(Input(_input_name(argument, index), type_, slot_of[argument]))
        returned = self._block(main.body, slot_of)
        outputs = _distinct([self.names.get(slot, f"output_{index}") for index, slot in enumerate(returned)])
        return Plan(
            tuple(inputs),
            tuple(self.constants),
            self._with_frees(set(returned)),
            tuple(zip(outputs, returned, strict=True)),
            tuple(of_tensor(value.type) for value in main.outputs),
            self.names,
            self.slots,
        )

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _block(self, block: Block, slot_of: dict[Value, int]) -> list[int]:
        """Plan the operations of a block; returns the slots that its last operation uses."""
        for operation in block.operations:
            operands = [slot_of[value] for value in operation.operands]
            if operation is block.operations[-1] and not operation.results:
                return operands
            slots = self._operation(operation, operands, slot_of)
            slot_of.update(zip(operation.results, slots, strict=True))
        return []

    def _operation(self, operation: Operation, operands: list[int], slot_of: dict[Value, int]) -> list[int]:
        op = operation.op
        if isinstance(op, Return):
            return []
        if isinstance(op, Call):
            return self._call(operation, op.callee, operands)
        if isinstance(op, StructuredOp):
            operands = [*operands, *(slot_of[value] for value in operation.captured())]
        elif operation.regions:
            return self._in_place(operation, slot_of)
        if operation.results and all(isinstance(value.type, NoneType) for value in operation.results):
            return [ABSENT_SLOT] * len(operation.results)
        results = [self._new_slot() for _ in operation.results]
        if isinstance(op, Constant):
            self.constants.append((results[0], operation))
            return results
        for slot, value in zip(results, operation.results, strict=True):
            if value.name:
                self.names[slot] = value.name
        self.steps.append((operation, tuple(operands), tuple(results)))
        return results

    def _call(self, operation: Operation, callee: str, operands: list[int]) -> list[int]:
        function = self.functions.get(callee)
        if function is None:
            raise InvalidModel(f"op '{operation.name}' calls '{callee}', which is not in the module; add it")
        if callee in self.active:
            raise InvalidModel(f"function '{callee}' calls itself; networks have no recursion, remove the call")
        self.active.append(callee)
        returned = self._block(function.body, dict(zip(function.inputs, operands, strict=True)))
        self.active.pop()
        return returned

    def _in_place(self, operation: Operation, slot_of: dict[Value, int]) -> list[int]:
        blocks = [block for region in operation.regions for block in region.blocks]
        if len(blocks) != 1 or blocks[0].arguments:
            raise InvalidModel(
                f"op '{operation.name}' ({operation.op.name}): only one region of one block without arguments "
                "can be run in place; rewrite it so"
            )
        returned = self._block(blocks[0], dict(slot_of))
        if len(returned) != len(operation.results):
            raise InvalidModel(
                f"op '{operation.name}' ({operation.op.name}): its region gives {len(returned)} values, "
                f"it has {len(operation.results)} results; make them equal"
            )
        return returned

    def _with_frees(self, kept: set[int]) -> tuple[Step, ...]:
        """Set `frees`: walking backwards, the first occurrence of a slot is its last use."""
        seen = kept | {ABSENT_SLOT} | {slot for slot, _ in self.constants}
        result: list[Step] = []
        for operation, operands, results in reversed(self.steps):
            frees = [slot for slot in dict.fromkeys((*operands, *results)) if slot not in seen]
            seen.update(frees)
            result.append(Step(operation, operation.node(), operands, results, tuple(frees)))
        return tuple(reversed(result))


def _input_name(argument: Value, index: int) -> str:
    """The name of the input op that reads the argument, else the argument's own."""
    for user in argument.users:
        if isinstance(user.op, NetworkInput) and user.name:
            return user.name
    return argument.name or f"arg{index}"


def _distinct(names: Sequence[str]) -> list[str]:
    """Number the repetitions of a value that is returned more than once."""
    result: list[str] = []
    for place, name in enumerate(names):
        result.append(free_name(name, (*result, *names[place + 1 :]).__contains__) if name in result else name)
    return result
