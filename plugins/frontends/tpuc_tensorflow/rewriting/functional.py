"""Convert a graph of the executor to operations in program order: merges become `tf.IfRegion`, frames
`tf.WhileRegion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpuc.api import Block, Function, Location, Module, Operation, OpRegion, Unsupported, Value

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.tf import definition
from tpuc_tensorflow.dialects.types import data_operands, is_control
from tpuc_tensorflow.rewriting.conditions import Outcome, Place, Places, is_header, predicate_of

_EFFECTS = ("Assign", "ResourceApply", "ResourceScatter", "Scatter", "Apply")
_PURE = frozenset({"ScatterNd"})


def to_functional(module: Module) -> bool:
    """Replace every graph by functional operations. Returns True if there was one. Raises Unsupported."""
    changed = False
    for function in module.functions:
        for operation in list(function.operations):
            if isinstance(operation.op, ex.Graph):
                _replace(function, operation)
                changed = True
    return changed


def _replace(function: Function, graph: Operation) -> None:
    operations = graph.regions[0].blocks[0].operations
    block = Block()
    results = _Functional(operations, block).results()
    for operation in block.operations:
        function.body.insert_before(graph, operation)
    for old, new in zip(graph.results, results, strict=True):
        old.replace_with(new)
    graph.erase()
    function.update_type()


@dataclass(eq=False)
class _Scope:
    """A block under construction, and the values of the graph available in it."""

    block: Block
    place: Place
    parent: _Scope | None = None
    values: dict[Value, Value] = field(default_factory=dict["Value", "Value"])

    def find(self, value: Value) -> Value | None:
        """Return this block's value for a value of the graph."""
        scope: _Scope | None = self
        while scope is not None:
            if value in scope.values:
                return scope.values[value]
            scope = scope.parent
        return None

    def home(self, place: Place) -> _Scope | None:
        """Return the outermost surrounding scope in which a value of that place is computed."""
        found: _Scope | None = None
        scope: _Scope | None = self
        while scope is not None:
            if scope.place.frames == place.frames and place.outcomes <= scope.place.outcomes:
                found = scope
            scope = scope.parent
        return found


class _Functional:
    def __init__(self, operations: Sequence[Operation], block: Block) -> None:
        self._operations = operations
        self._places = Places(operations)
        self._root = _Scope(block, Place())
        self._inside = {value for operation in operations for value in operation.results}

    def results(self) -> list[Value]:
        """Return the fetched values; operations outside of branches and loops keep their order."""
        fetch = self._operations[-1]
        needed = self._needed(data_operands(fetch.operands))
        self._check_effects(needed)
        for operation in self._operations:
            if operation in needed and isinstance(operation.op, ex.Island):
                place = self._places.of((*operation.operands, *operation.captured()))
                if place == Place():
                    self._island(operation, self._root)
        return [self._emit(value, self._root) for value in data_operands(fetch.operands)]

    def _needed(self, values: Iterable[Value]) -> set[Operation]:
        """Return what values depend on, without control."""
        found: set[Operation] = set()
        waiting = list(values)
        while waiting:
            operation = waiting.pop().defining
            if operation is None or operation in found or operation.block is not self._operations[0].block:
                continue
            found.add(operation)
            waiting += [value for value in (*operation.operands, *operation.captured()) if not is_control(value.type)]
            if isinstance(operation.op, ex.Source):
                (sink,) = operation.results[1].users
                waiting.append(sink.operands[1])
        return found

    def _check_effects(self, needed: set[Operation]) -> None:
        """Check that omitting what is reached only by control has no effect."""
        for operation in self._operations:
            if operation in needed or not isinstance(operation.op, ex.Island):
                continue
            for inner in operation.regions[0].blocks[0].operations:
                name = inner.op.name.removeprefix("tf.")
                if name.startswith(_EFFECTS) and name not in _PURE:
                    raise Unsupported(
                        f"node '{operation.name}' ({name}): it changes a variable while the network runs, and compiled "
                        "networks keep nothing. Export the network for inference."
                    )

    # Values

    def _emit(self, value: Value, scope: _Scope) -> Value:
        """Return the function's value for a value of the graph."""
        if value not in self._inside:
            return value
        known = scope.find(value)
        if known is not None:
            return known
        operation = value.defining
        assert operation is not None
        match operation.op:
            case ex.Exit():
                self._loop(operation, scope)
            case ex.Merge() if not is_header(operation):
                self._branch(operation, scope)
            case ex.Island():
                self._island(operation, self._home(operation, scope))
            case ex.Switch():
                return self._emit(operation.operands[1], scope)
            case ex.Enter() | ex.LoopCond():
                return self._emit(operation.operands[0], scope)
            case _:
                raise _refused(operation, "it has no functional form here")
        found = scope.find(value)
        if found is None:
            raise _refused(operation, "it is used where it is not computed")
        return found

    def _home(self, operation: Operation, scope: _Scope) -> _Scope:
        place = self._places.of((*operation.operands, *operation.captured()))
        home = scope.home(place)
        if home is None:
            raise _refused(operation, "it is computed in one branch or loop and used outside, without a Merge or Exit")
        return home

    def _island(self, island: Operation, scope: _Scope) -> None:
        if island.results and island.results[0] in scope.values:
            return
        values = {value: self._emit(value, scope) for value in island.captured() if not is_control(value.type)}
        *operations, end = island.regions[0].blocks[0].operations
        for operation in operations:
            if isinstance(operation.op, ex.Graph):
                raise _refused(island, "graphs within islands have no functional form here")
            twin = copied(operation, values)
            scope.block.append(twin)
            values.update(zip(operation.results, twin.results, strict=True))
        for result, value in zip(island.results, end.operands, strict=False):
            scope.values[result] = values.get(value, value)

    # Branches

    def _branch(self, merge: Operation, scope: _Scope) -> None:
        """Build one `tf.IfRegion` for all merges with the same predicate that do not depend on each other."""
        home = self._home_of_result(merge, scope)
        decided = self._places.decision(merge)
        if decided is None:
            raise _refused(merge, "which of its inputs is live does not follow from one predicate")
        predicate = decided[0]
        merges = self._alike(merge, predicate)
        condition = self._emit(predicate, home)
        regions: list[OpRegion] = []
        for side in (True, False):
            block = Block()
            outcomes: frozenset[Outcome] = home.place.outcomes | {(predicate, side)}
            inner = _Scope(block, Place(home.place.frames, outcomes), home)
            inputs = [self._input(one, side) for one in merges]
            _end(block, [self._emit(value, inner) for value in inputs], merge.location)
            regions.append(OpRegion([block]))
        types = [one.results[0].type for one in merges]
        names = Location(tuple(one.name for one in merges))
        made = home.block.append(Operation(definition("IfRegion")(), [condition], types, names, regions=regions))
        for one, result in zip(merges, made.results, strict=True):
            home.values[one.results[0]] = result

    def _home_of_result(self, merge: Operation, scope: _Scope) -> _Scope:
        home = scope.home(self._places[merge.results[0]])
        if home is None:
            raise _refused(merge, "it is computed in one branch or loop and used outside, without a Merge or Exit")
        return home

    def _input(self, merge: Operation, side: bool) -> Value:
        decided = self._places.decision(merge)
        assert decided is not None
        return decided[1] if side else decided[2]

    def _alike(self, merge: Operation, predicate: Value) -> list[Operation]:
        place = self._places[merge.results[0]]
        found = [merge]
        for other in self._operations:
            if not isinstance(other.op, ex.Merge) or other is merge or is_header(other):
                continue
            decided = self._places.decision(other)
            same = decided is not None and decided[0] is predicate and self._places[other.results[0]] == place
            if same and self._is_apart(other, found):
                found.append(other)
        return found

    def _is_apart(self, merge: Operation, others: Sequence[Operation]) -> bool:
        """True if a merge and the others do not depend on each other."""
        if merge in self._needed(value for other in others for value in other.operands):
            return False
        return self._needed(merge.operands).isdisjoint(others)

    # Loops

    def _loop(self, way_out: Operation, scope: _Scope) -> None:
        """Build one `tf.WhileRegion` that carries the merges at the head of the frame."""
        frames = self._places[way_out.operands[0]].frames
        mine = [one for one in self._operations if one.results and self._places[one.results[0]].frames == frames]
        headers = [one for one in mine if is_header(one)]
        exits = [one for one in self._operations if isinstance(one.op, ex.Exit)]
        exits = [one for one in exits if self._places[one.operands[0]].frames == frames]
        home = scope.home(Place(frames[:-1], self._places[way_out.results[0]].outcomes))
        if home is None or not all(map(_is_carried, headers)) or not headers:
            raise _refused(way_out, "its frame has no functional form here")
        starts = [self._emit(self._start(header), home) for header in headers]
        predicate, goes_on = self._condition(exits)
        regions = [
            self._region(frames, headers, home, [predicate], goes_on),
            self._region(frames, headers, home, [self._next(header) for header in headers], None),
        ]
        types = [header.results[0].type for header in headers]
        names = Location(tuple(header.name for header in headers))
        made = home.block.append(Operation(definition("WhileRegion")(), starts, types, names, regions=regions))
        last = dict(zip((header.results[0] for header in headers), made.results, strict=True))
        after = _Scope(home.block, Place(frames, home.place.outcomes), home, last)
        for one in exits:
            home.values[one.results[0]] = self._emit(one.operands[0], after)

    def _region(
        self,
        frames: tuple[str, ...],
        headers: Sequence[Operation],
        home: _Scope,
        values: Sequence[Value],
        keep: bool | None,
    ) -> OpRegion:
        """Build a region over the carried values; a condition states whether true continues the loop."""
        block = Block([header.results[0].type for header in headers])
        known = dict(zip((header.results[0] for header in headers), block.arguments, strict=True))
        inner = _Scope(block, Place(frames, home.place.outcomes), home, known)
        results = [self._emit(value, inner) for value in values]
        if keep is False:
            turned = Operation(definition("LogicalNot")(), results, [results[0].type], headers[0].location)
            results = [block.append(turned).result]
        _end(block, results, headers[0].location)
        return OpRegion([block])

    def _start(self, header: Operation) -> Value:
        (start,) = [value for value in data_operands(header.operands) if not _comes_back(value)]
        return start

    def _next(self, header: Operation) -> Value:
        (back,) = [value for value in data_operands(header.operands) if _comes_back(value)]
        assert back.defining is not None
        (sink,) = back.defining.results[1].users
        return sink.operands[1]

    def _condition(self, exits: Sequence[Operation]) -> tuple[Value, bool]:
        """Return the predicate, and the outcome that continues the loop."""
        ways: set[tuple[Value, bool]] = set()
        for one in exits:
            switch = one.operands[0].defining
            assert switch is not None
            ways.add((predicate_of(switch.operands[0]), one.operands[0].index == 1))
        if len(ways) != 1:
            raise _refused(exits[0], "the exits of its frame follow different predicates")
        return ways.pop()


def _comes_back(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, ex.Source)


def _is_carried(header: Operation) -> bool:
    """True if a merge at the head of a frame takes one value from before it and one from the round before."""
    values = data_operands(header.operands)
    backs = [value.defining for value in values if _comes_back(value)]
    return len(values) == 2 and len(backs) == 1 and backs[0] is not None and len(backs[0].results[1].users) == 1


def _end(block: Block, values: Sequence[Value], location: Location) -> None:
    block.append(Operation(definition("Yield")(), values, (), location))


def _refused(operation: Operation, reason: str) -> Unsupported:
    name = operation.op.name.rpartition(".")[2]
    return Unsupported(f"node '{operation.name}' ({name}): {reason}. Export the network with control flow v2.")


def copied(operation: Operation, values: dict[Value, Value]) -> Operation:
    """Copy an operation with its regions; `values` maps captured values and operands."""
    twin = Operation(
        operation.op,
        [values.get(value, value) for value in operation.operands],
        [result.type for result in operation.results],
        operation.location,
        dict(operation.extra_attributes),
    )
    for region in operation.regions:
        blocks: list[Block] = []
        inner = dict(values)
        for block in region.blocks:
            new = Block([argument.type for argument in block.arguments])
            inner.update(zip(block.arguments, new.arguments, strict=True))
            for one in block.operations:
                made = new.append(copied(one, inner))
                inner.update(zip(one.results, made.results, strict=True))
            blocks.append(new)
        made_region = OpRegion(blocks)
        made_region.parent = twin
        twin.regions.append(made_region)
    return twin
