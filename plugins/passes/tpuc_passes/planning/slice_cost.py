"""What a run of operations costs in slices, by its first slice, its last one and one between."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.slicing import Propagation, Run
from tpuc_passes.planning.task import KernelFacts, TileTask

_APART = 0.3
"""Part of the less busy engine's time that adds to the other's, where buffers have room."""


def time_of(transfers: float, compute: float) -> float:
    """Estimated time of so many cycles of transfers beside so many of computing."""
    return max(transfers, compute) + _APART * min(transfers, compute)


@dataclass(frozen=True)
class Estimate:
    """A run: cycles of transfers, of computing while there is no room for other slices' data and while there is, and
    the bytes per lane that it needs.
    """

    transfers: int
    alone: float
    beside: float
    need: int

    def time(self, more: int) -> float:
        """Estimated time with `more` cycles of transfers elsewhere."""
        return self.alone + time_of(self.transfers + more, self.beside)


@dataclass(frozen=True)
class _Seen:
    """A slice that stands for `weight` of them: bytes that come and go, bytes in use and computing cycles per task."""

    weight: int
    passing: int
    live: tuple[int, ...]
    compute: tuple[int, ...]


@dataclass(frozen=True)
class Followed:
    """A run whatever the room: cycles of transfers, bytes of constants, bytes that it needs, its slices.

    Without `complete` slices are missing, which matters where there is room for the others.
    """

    transfers: int
    constants: int
    need: int
    slices: tuple[_Seen, ...]
    complete: bool

    def answers(self, room: int) -> bool:
        """Is enough known for an estimate?"""
        return self.complete or self.need > room

    def estimate(self, room: int) -> Estimate | None:
        """The cost of the run with so many bytes per lane; None where it needs more."""
        if self.need > room:
            return None
        alone = beside = 0.0
        for one in self.slices:
            for own, used in zip(one.compute, one.live, strict=True):
                share = min((room - self.constants - used) / max(one.passing, 1), 1.0)
                beside += one.weight * own * share
                alone += one.weight * own * (1 - share)
        return Estimate(self.transfers, alone, beside, self.need)


class RunCosts:
    """What the plans of a module learn of runs. Runs that look alike are followed once."""

    def __init__(self, cycles: Cycles) -> None:
        self.cycles = cycles
        self._kinds: dict[KernelFacts, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, Followed | None] = {}

    def follow(self, key: Hashable, room: int, follow: Callable[[], Followed | None]) -> Followed | None:
        """A run that looks like `key`; None where it is impossible. `follow`: asked for what is not known yet."""
        followed = self._known.get(key)
        if key not in self._known or (followed is not None and not followed.answers(room)):
            followed = self._known[key] = follow()
        return followed

    def number(self, looks: Hashable) -> int:
        """Equal for what is equal."""
        return self._numbers.setdefault(looks, len(self._numbers))

    def kind(self, task: TileTask) -> int:
        """Equal for tasks that differ in values alone."""
        if task.facts not in self._kinds:
            node = task.node
            types = tuple((t.shape, t.storage) for t in (*node.operand_types, *node.result_types))
            looks = (task.operation.op.name, type(task.kernel), types, task.facts.view, task.kernel.tiling_key(node))
            self._kinds[task.facts] = self.number(looks)
        return self._kinds[task.facts]


class Growth:
    """Runs that end with the same task under one slicing, from the shortest on.

    `run`: the longest of them. `behind`: per task those, counted as in the stretch, that write its operands as other
    values.
    """

    def __init__(self, run: Run, behind: Sequence[AbstractSet[int]], cycles: Cycles) -> None:
        self.run = run
        self.behind = behind
        self.cycles = cycles
        self.known = len(run.tasks)
        self.impossible = False
        count = run.count
        weights = {0: 1, count - 1: 1}
        weights[count // 2] = weights.get(count // 2, 0) + count - len(weights)
        self.batches = count // run.slicing.parts
        self.pieces = [_Piece(run, number, weight, cycles) for number, weight in sorted(weights.items())]
        self.constants = [(0, 0)] * len(run.tasks)

    def follow(self, start: int, room: int) -> Followed | None:
        """The run from task `start` of the longest one on, as far as its slices fit into `room`; None where it is
        impossible.
        """
        while self.known > start and not self.impossible:
            self.known -= 1
            self.impossible = not self._add(self.known)
        if self.impossible:
            return None
        assert self.known == start, "runs are asked for from the shortest on"
        size = sum(own for own, _ in self.constants[start:])
        transfers = sum(cycles for _, cycles in self.constants[start:])
        need = 0
        seen: list[_Seen] = []
        for piece in self.pieces:
            moved, passing, live = piece.around(start)
            transfers += piece.weight * moved
            need = max(need, max(live) + size)
            seen.append(_Seen(piece.weight, passing, tuple(live), tuple(piece.compute[start:])))
            if need > room:
                break
        return Followed(transfers, size, need, tuple(seen), len(seen) == len(self.pieces))

    def _add(self, point: int) -> bool:
        """Take in a task; False where it cannot be sliced with the others, or would compute too many rows twice."""
        run, task = self.run, self.run.tasks[point]
        if not self._is_possible(point, task):
            return False
        rows = 0
        for piece in self.pieces:
            try:
                rows += piece.weight * piece.add(point)
            except ValueError:
                return False
        self.constants[point] = _constants(task, self.cycles)
        return 2 * rows <= 3 * self.batches * run.tasks[point].space.results[0].shape[2]

    def _is_possible(self, point: int, task: TileTask) -> bool:
        """Is the result seen alike by its users, and are there rows enough?"""
        run, result = self.run, task.space.results[0]
        if result.shape[2] < run.slicing.parts or result.shape[0] != run.tasks[-1].space.results[0].shape[0]:
            return False
        if any(run.start + point in self.behind[user] for user in range(point, len(run.tasks))):
            return False
        for user, index in self.pieces[0].propagation.readers.get(id(task.operation.result), ()):
            reader = run.tasks[user]
            if result.strides is not None or reader.space.operands[index] != result:
                return False
            if reader.layouts.operands[index] != task.layouts.results[0]:
                return False
        return True


class _Piece:
    """One slice, which stands for `weight` slices. Lists are per task."""

    def __init__(self, run: Run, number: int, weight: int, cycles: Cycles) -> None:
        self.run = run
        self.weight = weight
        self.cycles = cycles
        self.propagation = Propagation(run, number)
        count = len(run.tasks)
        self.compute = [0] * count
        self.scratch = [0] * count
        self.results = [0] * count
        self.stores = [0] * count

    def add(self, point: int) -> int:
        """Take in a task; the rows that it computes."""
        task, propagation = self.run.tasks[point], self.propagation
        propagation.add(point)
        window = propagation.windows[(id(task.operation.result),)]
        tiles = propagation.tiles[point]
        box = window.box(task.space.results[0].shape)
        self.compute[point] = sum(self.cycles.compute(task, tile, task.phase(tile), task.boxes(tile)) for tile in tiles)
        self.scratch[point] = max(sum(item.bytes_per_lane for item in task.scratch(tile)) for tile in tiles)
        self.results[point] = task.result_bytes(0, box)
        self.stores[point] = self.cycles.store(task, 0, box) if self.run.stored[point] else 0
        return window.rows[1] - window.rows[0]

    def around(self, start: int) -> tuple[int, int, list[int]]:
        """Cycles of transfers, bytes that come and go, and bytes in use per task, of the run from a task on."""
        propagation = self.propagation
        transfers, passing = sum(self.stores[start:]), 0
        live = list(self.scratch[start:])
        for point in range(start, len(live) + start):
            uses = propagation.readers.get(id(self.run.tasks[point].operation.result), ())
            for at in range(point, max((user for user, _ in uses), default=point) + 1):
                live[at - start] += self.results[point]
            passing += self.results[point] if self.run.stored[point] else 0
        for key, window in propagation.loaded().items():
            uses = [(key[1], key[2])] if len(key) > 1 else propagation.readers[key[0]]
            user, index = uses[0]
            task = self.run.tasks[user]
            view = task.space.operands[index]
            assert view is not None
            box = window.box(view.shape)
            size = task.operand_bytes(index, box)
            transfers += self.cycles.load(task, index, box)
            passing += size
            users = [use[0] for use in uses]
            for at in range(min(users), max(users) + 1):
                live[at - start] += size
        return transfers, passing, live


def _constants(task: TileTask, cycles: Cycles) -> tuple[int, int]:
    """Bytes per lane of all constants of a task, and cycles of loading them."""
    size = total = 0
    for group in task.constant_groups:
        seen: set[Hashable] = set()
        for tile in task.tiles:
            key = task.constant_key(group, tile)
            if key not in seen:
                seen.add(key)
                own, lanes = task.group_layout(group, tile)[0], task.group_lanes(group, tile)
                size += own
                total += cycles.block(own, lanes, group[0].broadcast)
    return size, total
