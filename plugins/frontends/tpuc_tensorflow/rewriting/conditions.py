"""Compute where values of a graph are live: in which frames, and under which predicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import Operation, Unsupported, Value

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.forms import wrapped
from tpuc_tensorflow.dialects.tf import is_tf
from tpuc_tensorflow.dialects.types import data_operands

Outcome: TypeAlias = tuple[Value, bool]


@dataclass(frozen=True)
class Place:
    """A value is live in a step of these frames, outermost first, if all outcomes hold."""

    frames: tuple[str, ...] = ()
    outcomes: frozenset[Outcome] = frozenset()

    def joined(self, other: Place) -> Place:
        """Return the place where both are live."""
        frames = max(self.frames, other.frames, key=len)
        return Place(frames, self.outcomes | other.outcomes)


def predicate_of(value: Value) -> Value:
    """Return the value that a predicate forwards through identities and LoopCond."""
    while (operation := value.defining) is not None:
        inner = wrapped(operation) if isinstance(operation.op, ex.Island) else None
        if inner is not None and is_tf(inner, "Identity") and value.index == 0:
            value = inner.operands[0]
        elif isinstance(operation.op, ex.LoopCond) and value.index == 0:
            value = operation.operands[0]
        else:
            break
    return value


def is_header(operation: Operation) -> bool:
    """True for the merge at the head of a loop."""
    return isinstance(operation.op, ex.Merge) and any(map(_is_source, operation.operands))


def _is_source(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, ex.Source)


class Places:
    """The places of all values of a graph."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._places: dict[Value, Place] = {}
        self._loop_predicates = loop_predicates(operations)
        for operation in operations:
            self._note(operation)

    def __getitem__(self, value: Value) -> Place:
        return self._places.get(value, Place())

    def is_of_loop(self, switch: Operation) -> bool:
        """True if the switch chooses between the next step of a loop and its end."""
        return predicate_of(switch.operands[0]) in self._loop_predicates

    def of(self, values: Iterable[Value]) -> Place:
        """Return the place where all of these are live."""
        place = Place()
        for value in values:
            place = place.joined(self[value])
        return place

    def _note(self, operation: Operation) -> None:
        used = [*operation.operands, *operation.captured()]
        place = self.of(value for value in used if not _is_source(value))
        match operation.op:
            case ex.Enter(frame_name=name):
                place = Place((*place.frames, name), place.outcomes)
            case ex.Exit():
                place = Place(place.frames[:-1], place.outcomes)
            case ex.Switch() if not self.is_of_loop(operation):
                self._note_switch(operation, place)
                return
            case ex.Merge() if not is_header(operation):
                place = self._merged(operation)
            case _:
                pass
        self._places.update(dict.fromkeys(operation.results, place))

    def _note_switch(self, operation: Operation, place: Place) -> None:
        predicate = predicate_of(operation.operands[0])
        true, false, control = operation.results
        self._places[control] = place
        for value, side in ((true, True), (false, False)):
            self._places[value] = Place(place.frames, place.outcomes | {(predicate, side)})

    def _merged(self, operation: Operation) -> Place:
        decided = self.decision(operation)
        if decided is None:
            return self.of(operation.operands)
        predicate, _, _ = decided
        place = self.of(operation.operands)
        return Place(place.frames, frozenset(one for one in place.outcomes if one[0] is not predicate))

    def decision(self, merge: Operation) -> tuple[Value, Value, Value] | None:
        """Return the predicate that decides which of two inputs is live, and the inputs for true and false."""
        inputs = data_operands(merge.operands)
        if len(inputs) != 2:
            return None
        one, other = (self[value].outcomes for value in inputs)
        opposite = [(p, side) for p, side in one if (p, not side) in other]
        if len(opposite) != 1:
            return None
        ((predicate, side),) = opposite
        return (predicate, inputs[0], inputs[1]) if side else (predicate, inputs[1], inputs[0])


def loop_predicates(operations: Iterable[Operation]) -> set[Value]:
    """Return the predicates of loops: those of switches that lead to an exit."""
    found: set[Value] = set()
    for operation in operations:
        if isinstance(operation.op, ex.Exit):
            switch = operation.operands[0].defining
            if switch is None or not isinstance(switch.op, ex.Switch):
                raise Unsupported(
                    f"node '{operation.name}' (Exit): it does not follow a Switch, so its loop is unknown."
                )
            found.add(predicate_of(switch.operands[0]))
    return found
