"""Convert operations in program order to a graph of the executor: regions become Switch and Merge, loops become
frames.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Block, Function, Location, Module, Op, Operation, OpRegion, Type, Value

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.tf import definition, is_tf
from tpuc_tensorflow.dialects.types import CONTROL, TOKEN
from tpuc_tensorflow.rewriting.functional import copied


def to_executor(module: Module) -> bool:
    """Replace the body of every function without a graph by one. Returns True if there was such a function."""
    changed = False
    for function in module.functions:
        if not any(isinstance(operation.op, ex.Graph) for operation in function.operations):
            _replace(function)
            changed = True
    return changed


def _replace(function: Function) -> None:
    block = Block()
    *operations, end = function.operations
    around = _Around(block)
    around.add(operations)
    block.append(Operation(ex.Fetch(), [around.find(value) for value in end.operands]))
    types = [value.type for value in end.operands]
    graph = Operation(ex.Graph(), (), types, regions=[OpRegion([block])])
    function.body.insert_before(end, graph)
    end.set_operands(graph.results)
    for operation in reversed(operations):
        operation.erase()


class _Around:
    """The scope in which operations become islands. `pivot`: a control dependency that is live only there."""

    def __init__(self, block: Block, outer: _Around | None = None, pivot: Value | None = None) -> None:
        self._block = block
        self._outer = outer
        self._pivot = pivot
        self._known: dict[Value, Value] = {}
        self._frames = 0

    def find(self, value: Value) -> Value:
        """Return the graph's value for a value of the function."""
        if value in self._known:
            return self._known[value]
        if self._outer is None:
            return value
        self._known[value] = self._taken_in(self._outer.find(value))
        return self._known[value]

    def _taken_in(self, value: Value) -> Value:
        """Return a value from the surrounding scope."""
        return value

    def note(self, values: Sequence[Value], known: Sequence[Value]) -> None:
        """Record the graph's values for values of the function."""
        self._known.update(zip(values, known, strict=True))

    def add(self, operations: Sequence[Operation]) -> None:
        """Add operations in order."""
        for operation in operations:
            if is_tf(operation, "IfRegion"):
                self._branch(operation)
            elif is_tf(operation, "WhileRegion"):
                self._loop(operation)
            else:
                self._island(operation)

    def put(self, op: Op, operands: Sequence[Value], types: Sequence[Type], location: Location) -> Operation:
        """Add an operation of the executor."""
        return self._block.append(Operation(op, operands, types, location))

    def _island(self, operation: Operation) -> None:
        used = dict.fromkeys((*operation.operands, *operation.captured()))
        inner = Block()
        twin = inner.append(copied(operation, {value: self.find(value) for value in used}))
        inner.append(Operation(ex.Yield(), twin.results, (), operation.location))
        controls = [self._pivot] if self._pivot is not None and not used else []
        types = [*(value.type for value in operation.results), CONTROL]
        island = Operation(ex.Island(), controls, types, operation.location, regions=[OpRegion([inner])])
        self.note(operation.results, self._block.append(island).results[:-1])

    def _branch(self, operation: Operation) -> None:
        condition = self.find(operation.operands[0])
        ways: list[list[Value]] = []
        for region, side in zip(operation.regions, (True, False), strict=True):
            way = _Side(self._block, self, condition, side, operation.location)
            *inside, end = region.blocks[0].operations
            way.add(inside)
            ways.append([way.find(value) for value in end.operands])
        for result, true, false in zip(operation.results, *ways, strict=True):
            types = [result.type, CONTROL]
            merged = self.put(ex.Merge(), [false, true], types, operation.location)
            self.note([result], merged.results[:1])

    def _loop(self, operation: Operation) -> None:
        location, types = operation.location, [value.type for value in operation.operands]
        frame = _Frame(self._block, self, location)
        starts = [frame.enter(self.find(value)) for value in operation.operands]
        sources = [self.put(ex.Source(), (), [type, TOKEN], location) for type in types]
        headers = [
            self.put(ex.Merge(), [start, source.results[0]], [type, CONTROL], location)
            for start, source, type in zip(starts, sources, types, strict=True)
        ]
        condition, body = (region.blocks[0] for region in operation.regions)
        merged = [header.results[0] for header in headers]
        frame.pivot_on(headers[0].results[1])
        frame.note(condition.arguments, merged)
        frame.add(condition.operations[:-1])
        asked = frame.find(condition.operations[-1].operands[0])
        goes_on = self.put(ex.LoopCond(), [asked], [asked.type, CONTROL], location).results[0]
        step = _Side(self._block, frame, goes_on, True, location)
        step.note(body.arguments, [step.switched(value) for value in merged])
        step.add(body.operations[:-1])
        for source, value in zip(sources, body.operations[-1].operands, strict=True):
            self.put(ex.Sink(), [source.results[1], step.find(value)], (), location)
        last = _Side(self._block, frame, goes_on, False, location)
        ways_out = [self.put(ex.Exit(), [last.switched(value)], [value.type, CONTROL], location) for value in merged]
        self.note(operation.results, [one.results[0] for one in ways_out])


class _Side(_Around):
    """The scope where a predicate has one outcome: values from outside pass a Switch."""

    def __init__(self, block: Block, outer: _Around, predicate: Value, side: bool, location: Location) -> None:
        super().__init__(block, outer)
        self._predicate, self._side, self._location = predicate, side, location
        inner = Block()
        same = inner.append(Operation(definition("Identity")(), [self.switched(predicate)], [predicate.type]))
        inner.append(Operation(ex.Yield(), same.results))
        island = Operation(ex.Island(), (), [predicate.type, CONTROL], location, regions=[OpRegion([inner])])
        self._pivot = block.append(island).results[1]

    def switched(self, value: Value) -> Value:
        """Return the value that is dead for the other outcome."""
        types = [value.type, value.type, CONTROL]
        return self.put(ex.Switch(), [self._predicate, value], types, self._location).results[0 if self._side else 1]

    def _taken_in(self, value: Value) -> Value:
        return self.switched(value)


class _Frame(_Around):
    """The frame of a loop: values from outside are available in every step."""

    def __init__(self, block: Block, outer: _Around, location: Location) -> None:
        super().__init__(block, outer)
        names = {one.op.frame_name for one in block.operations if isinstance(one.op, ex.Enter)}
        self._name = f"{location.name or 'while'}_{len(names)}"
        self._location = location

    def enter(self, value: Value, is_constant: bool = False) -> Value:
        """Return a value in the first step, or in every one."""
        op = ex.Enter(frame_name=self._name, is_constant=is_constant)
        return self.put(op, [value], [value.type, CONTROL], self._location).results[0]

    def pivot_on(self, control: Value) -> None:
        """Set the value that is live in every step."""
        self._pivot = control

    def _taken_in(self, value: Value) -> Value:
        return self.enter(value, is_constant=True)
