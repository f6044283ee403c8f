"""Run `tf_executor.graph` like TensorFlow's executor: operations fire when their operands are available, live or dead.

A value exists once per *context*, a step of a frame. Enter moves it into the first step of the frame of its name,
NextIteration into the next step, Exit out of the frame. A dead value of NextIteration starts no step; if a frame's
steps have ended and an Exit was never live, the Exit yields a dead value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import Module, Operation, Value
from tpuc_ops.arrays import Array
from tpuc_ops.regions import run_block

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.types import TOKEN, data_operands, is_control

MOST_FIRINGS = 1 << 20
"""A run with more firings is considered infinite."""

Choice: TypeAlias = Callable[[int], int]
"""Chooses which of several ready operations fires; the result must not depend on it."""


class _Dead:
    """The single dead value."""


DEAD = _Dead()
LIVE = np.zeros(())
"""Represents a live control dependency."""

Held: TypeAlias = "Array | _Dead"
Need: TypeAlias = "Value | str"
"""A value of the graph, or the name of a sent value."""


@dataclass(eq=False)
class Frame:
    """A running loop: `constants` are available in every step, `left` are exits that were live."""

    name: str
    parent: Frame | None
    parent_step: int
    steps: int = 1
    constants: dict[Value, Held] = field(default_factory=dict["Value", "Held"])
    entered: set[Operation] = field(default_factory=set["Operation"])
    exits: set[Operation] = field(default_factory=set["Operation"])
    left: set[Operation] = field(default_factory=set["Operation"])
    is_closed: bool = False

    @property
    def depth(self) -> int:
        """Number of surrounding frames."""
        return 0 if self.parent is None else self.parent.depth + 1


@dataclass(frozen=True)
class Context:
    """A step of a frame."""

    frame: Frame
    step: int


def run_graph(
    operation: Operation, values: Mapping[Value, Array], module: Module, choose: Choice | None = None
) -> list[Array]:
    """Return the fetched values of a graph. Raises ValueError if one is dead or never computed."""
    return _Run(operation, values, module, choose or _first).results()


def _first(_: int) -> int:
    return 0


class _Run:
    def __init__(self, graph: Operation, values: Mapping[Value, Array], module: Module, choose: Choice) -> None:
        self._operations = graph.regions[0].blocks[0].operations
        self._outside = values
        self._module = module
        self._choose = choose
        self._inside = {value for operation in self._operations for value in operation.results}
        self._needs = {operation: tuple(self._needs_of(operation)) for operation in self._operations}
        self._users: dict[Need, list[Operation]] = {}
        for operation, needs in self._needs.items():
            for need in needs:
                self._users.setdefault(need, []).append(operation)
        self._enters: dict[str, set[Operation]] = {}
        for operation in self._operations:
            if isinstance(operation.op, ex.Enter):
                self._enters.setdefault(operation.op.frame_name, set()).add(operation)
        self._root = Frame("", None, 0)
        self._frames: dict[tuple[Frame, int, str], Frame] = {}
        self._held: dict[tuple[Operation, Context], dict[Need, Held]] = {}
        self._fired: set[tuple[Operation, Context]] = set()
        self._ready: list[tuple[Operation, Context]] = []

    def _needs_of(self, operation: Operation) -> Iterator[Need]:
        used = dict.fromkeys((*operation.operands, *operation.captured()))
        yield from (value for value in used if value in self._inside and value.type != TOKEN)
        if isinstance(operation.op, ex.Recv):
            yield f"sent {operation.op.tensor_name}"

    def results(self) -> list[Array]:
        """Fire all operations, then return the operands of the fetch."""
        root = Context(self._root, 0)
        for operation, needs in self._needs.items():
            fires = not isinstance(operation.op, ex.Source)  # a source follows its sink
            if fires and (not needs or self._is_ready(operation, root)):
                self._ready.append((operation, root))
        count = 0
        while self._ready or self._close_frames():
            if not self._ready:
                continue
            operation, context = self._ready.pop(self._choose(len(self._ready)))
            self._fire(operation, context)
            count += 1
            if count > MOST_FIRINGS:
                raise ValueError(f"it did not end after {MOST_FIRINGS} operations")
        return self._fetched(root)

    def _fetched(self, root: Context) -> list[Array]:
        fetch = self._operations[-1]
        held = self._held.get((fetch, root), {})
        results: list[Array] = []
        for index, value in enumerate(data_operands(fetch.operands)):
            found = held.get(value) if value in self._inside else self._outside[value]
            if found is None:
                raise ValueError(f"fetched value {index} is never computed: what it depends on never runs")
            if isinstance(found, _Dead):
                raise ValueError(f"fetched value {index} is dead: the branch that computes it is not taken")
            results.append(found)
        return results

    # Arrivals

    def _deliver(self, need: Need, held: Held, context: Context) -> None:
        for user in self._users.get(need, ()):
            if isinstance(user.op, ex.Exit):
                context.frame.exits.add(user)
            arrived = self._held.setdefault((user, context), {})
            arrived[need] = held
            is_new = (user, context) not in self._fired and (user, context) not in self._ready
            if is_new and self._is_ready(user, context):
                self._ready.append((user, context))

    def _is_ready(self, operation: Operation, context: Context) -> bool:
        arrived = self._held.get((operation, context), {})
        if not isinstance(operation.op, ex.Merge):
            return all(need in arrived for need in self._needs[operation])
        if not all(
            need in arrived for need in self._needs[operation] if isinstance(need, Value) and is_control(need.type)
        ):
            return False
        inputs = data_operands(operation.operands)
        if any(value not in self._inside or isinstance(arrived.get(value, DEAD), np.ndarray) for value in inputs):
            return True
        return all(value in arrived for value in self._expected(inputs, context))

    def _expected(self, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Return the inputs a merge waits for: in a loop, all but the back edge in the first step, only the back edge
        later.
        """
        back = [value for value in inputs if value.defining is not None and isinstance(value.defining.op, ex.Source)]
        return [value for value in inputs if value not in back] if context.step == 0 or not back else back

    def _value(self, value: Value, operation: Operation, context: Context) -> Held:
        if value not in self._inside:
            return self._outside[value]
        return self._held.get((operation, context), {}).get(value, DEAD)

    # Firing

    def _fire(self, operation: Operation, context: Context) -> None:
        self._fired.add((operation, context))
        held = [self._value(value, operation, context) for value in operation.operands]
        if isinstance(operation.op, ex.Recv):
            held.append(self._held[operation, context][f"sent {operation.op.tensor_name}"])
        match operation.op:
            case ex.Enter():
                self._enter(operation, operation.op, _alive_together(held), context)
            case ex.Exit():
                self._exit(operation, _alive_together(held), context)
            case ex.Sink():
                self._next(operation, held[1:], context)
            case ex.Fetch():
                pass
            case ex.Send():
                self._deliver(f"sent {operation.op.tensor_name}", _alive_together(held), context)
                self._emit(operation, [LIVE if not _has_dead(held) else DEAD], context)
            case _:
                self._emit(operation, self._outputs(operation, held, context), context)

    def _emit(self, operation: Operation, held: Sequence[Held], context: Context) -> None:
        for value, item in zip(operation.results, held, strict=True):
            self._deliver(value, item, context)

    def _outputs(self, operation: Operation, held: Sequence[Held], context: Context) -> Sequence[Held]:
        op = operation.op
        if isinstance(op, ex.ControlTrigger):
            return [LIVE]
        if isinstance(op, ex.Merge):
            return self._merged(operation, held)
        captured = [self._value(value, operation, context) for value in operation.captured()]
        if _has_dead((*held, *captured)):
            return [DEAD] * len(operation.results)
        match op:
            case ex.Switch():
                taken = bool(np.asarray(held[0]).reshape(()))
                return [held[1] if taken else DEAD, DEAD if taken else held[1], LIVE]
            case ex.SwitchN():
                index = int(np.asarray(held[1]).reshape(()))
                return [*(held[0] if place == index else DEAD for place in range(op.num_outs)), LIVE]
            case ex.Island():
                return [*self._island(operation, context), LIVE]
            case ex.LoopCond():
                return [held[0], LIVE]
            case ex.Recv():
                return [held[-1], LIVE]
            case _:
                raise ValueError(f"{op.name} cannot be run in a graph")

    def _merged(self, operation: Operation, held: Sequence[Held]) -> Sequence[Held]:
        """Return the first live input; if several are live, any may be taken."""
        count = len(data_operands(operation.operands))
        live = next((index for index, item in enumerate(held[:count]) if isinstance(item, np.ndarray)), None)
        if live is None or _has_dead(held[count:]):
            return [DEAD] * len(operation.results)
        index = [np.array(live, np.int32)] if len(operation.results) == 3 else []
        return [held[live], *index, LIVE]

    def _island(self, operation: Operation, context: Context) -> Sequence[Array]:
        values = dict(self._outside)
        for value in operation.captured():
            held = self._value(value, operation, context)
            assert isinstance(held, np.ndarray)
            values[value] = held
        results = run_block(operation.regions[0].blocks[0], values, self._module)
        return [np.asarray(array) for array in results]

    # Frames

    def _enter(self, operation: Operation, op: ex.Enter, held: Held, context: Context) -> None:
        key = (context.frame, context.step, op.frame_name)
        if key not in self._frames:
            self._frames[key] = Frame(op.frame_name, context.frame, context.step)
        frame = self._frames[key]
        frame.entered.add(operation)
        control = DEAD if isinstance(held, _Dead) else LIVE
        if op.is_constant:
            frame.constants.update({operation.results[0]: held, operation.results[1]: control})
        for step in range(frame.steps if op.is_constant else 1):
            self._emit(operation, [held, control], Context(frame, step))

    def _exit(self, operation: Operation, held: Held, context: Context) -> None:
        frame = context.frame
        if frame.parent is None:
            raise ValueError("a tf_executor.Exit is outside of any frame")
        if isinstance(held, _Dead) or operation in frame.left:
            return
        frame.left.add(operation)
        self._emit(operation, [held, LIVE], Context(frame.parent, frame.parent_step))

    def _next(self, operation: Operation, held: Sequence[Held], context: Context) -> None:
        if _has_dead(held):
            return
        frame, step = context.frame, context.step + 1
        if frame.parent is None:
            raise ValueError("a tf_executor.NextIteration.Sink stands outside of any frame")
        following = Context(frame, step)
        if frame.steps == step:
            frame.steps += 1
            for value, item in frame.constants.items():
                self._deliver(value, item, following)
        source = operation.operands[0].defining
        assert source is not None
        control = [LIVE] if len(source.results) == 3 else []
        self._emit(source, [held[0], LIVE, *control], following)

    def _close_frames(self) -> bool:
        """When nothing can fire, make the exits of the innermost frames dead that never left. Returns True if there was
        such a frame.
        """
        able = [
            frame
            for frame in self._frames.values()
            if not frame.is_closed and frame.entered == self._enters[frame.name]
        ]
        for frame in sorted(able, key=lambda frame: -frame.depth)[:1]:
            frame.is_closed = True
            assert frame.parent is not None
            for operation in [one for one in self._operations if one in frame.exits - frame.left]:
                self._emit(operation, [DEAD, DEAD], Context(frame.parent, frame.parent_step))
        return bool(able)


def _has_dead(held: Sequence[Any]) -> bool:
    return any(isinstance(item, _Dead) for item in held)


def _alive_together(held: Sequence[Held]) -> Held:
    """Return the first value, dead if any is."""
    return DEAD if _has_dead(held) else held[0]
