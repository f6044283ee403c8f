"""Results that take over the memory of an operand, part by part, while their operation runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.api import NO_PADS, Function, MemoryPlan, NetworkInput, Phase, PlannedBuffer, Value

from tpuc_passes.planning.arena import Lived
from tpuc_passes.planning.memory import Lifetime
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.task import TileTask


@dataclass(frozen=True)
class Chain:
    """Lifetimes that share one memory, each but the first begins in the operation that reads the one before last."""

    spans: tuple[Lifetime, ...]

    def lived(self, pool: str) -> Lived:
        """The chain as one buffer."""
        first, last = self.spans[0], self.spans[-1]
        return Lived(first.value.name, first.size_bytes, first.first, last.last, (pool,))


def chains(spans: Sequence[Lifetime], tasks: Iterable[Any], places: Places, points: Mapping[int, int]) -> list[Chain]:
    """All lifetimes in chains, most of them alone. `points`: program point of an operation by `id`.

    A result may overwrite an operand where that has the same size, is read for the last time, and every tile reads
    exactly the part that it writes: then no tile finds its part overwritten by another one.
    """
    by_root = {id(span.value): [span] for span in spans}
    for task in tasks:
        if not isinstance(task, TileTask) or len(task.operation.results) != 1:
            continue
        result = places.place(task.operation.result)
        point = points[id(task.operation)]
        born = by_root.get(id(result.root))
        if born is None or len(born) > 1 or born[0].first != point or born[0].value is not task.operation.result:
            continue
        for operand in task.operation.operands:
            before = by_root.get(id(operand))
            if before is not None and before is not born and _may_follow(before[-1], born[0], task, places, point):
                before += born
                by_root[id(result.root)] = before
                del by_root[id(operand)]
                break
    unique = {id(members): members for members in by_root.values()}
    order = {id(span): number for number, span in enumerate(spans)}
    return [Chain(tuple(members)) for members in sorted(unique.values(), key=lambda one: order[id(one[0])])]


def boundary_alone(spans: Sequence[Lifetime], function: Function, places: Places) -> list[Lifetime]:
    """The lifetimes with those of inputs and outputs stretched over the whole program."""
    ends = [operation.result for operation in function.operations if isinstance(operation.op, NetworkInput)]
    kept = {id(places.place(value).root) for value in (*ends, *function.outputs)}
    last = len(function.operations)
    return [replace(span, first=-1, last=last) if id(span.value) in kept else span for span in spans]


def _may_follow(before: Lifetime, born: Lifetime, task: TileTask, places: Places, point: int) -> bool:
    value = before.value
    if before.last != point or before.size_bytes != born.size_bytes or before.first >= point:
        return False
    if value.defining is None or isinstance(value.defining.op, NetworkInput):
        return False  # what the caller wrote stays as it was
    residency = Residency.of(task.operation)
    reading = [i for i, one in enumerate(task.operation.operands) if places.place(one).root is value]
    if 0 not in residency.stored or any(i in residency.kept or i in residency.fetched for i in reading):
        return False
    return all(_reads_what_it_writes(task, value, i) for i in reading)


def _reads_what_it_writes(task: TileTask, value: Value, index: int) -> bool:
    operand, result = task.operation.operands[index], task.operation.result
    seen, made = task.space.operands[index], task.space.results[0]
    if operand is not value or seen is None or operand.tensor.storage.bits != result.tensor.storage.bits:
        return False
    if seen.shape != made.shape or seen.element_strides != made.element_strides:
        return False
    for tile in task.tiles:
        box, target = task.boxes(tile)[index], task.result_box(tile, 0)
        if box is None or box.start != target.start or box.shape != target.shape or box.padding != NO_PADS:
            return False
        if task.phase(tile) is not Phase.ONLY:
            return False
    return True


def expanded(plan: MemoryPlan, parts: Sequence[Chain]) -> MemoryPlan:
    """The plan with every value of a chain by itself; the bytes pass on at the operation that overwrites them."""
    buffers: list[PlannedBuffer] = []
    for buffer, chain in zip(plan.buffers, parts, strict=True):
        for number, span in enumerate(chain.spans):
            following = chain.spans[number + 1] if number + 1 < len(chain.spans) else None
            reason = buffer.reason
            if number:
                reason = (
                    f"in place of '{chain.spans[number - 1].value.name}', which its operation reads for the last time"
                )
            name = buffer.name if number == 0 else span.value.name
            last = span.last if following is None else following.first - 1
            buffers.append(replace(buffer, name=name, first=span.first, last=last, reason=reason))
    return replace(plan, buffers=tuple(buffers))
