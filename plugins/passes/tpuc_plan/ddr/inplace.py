"""Find results that can overwrite an operand in DDR, tile by tile, while their op runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tpuc.api import NO_PADS, Function, MemoryPlan, NetworkInput, Operation, Phase, PlannedBuffer, Value

from tpuc_plan.ddr.lifetimes import Lifetime
from tpuc_plan.planners.arena import Lived
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.task import Task, TileTask


@dataclass(frozen=True)
class Chain:
    """Live ranges that share memory. Each one after the first begins at the operation that reads its predecessor
    last.
    """

    spans: tuple[Lifetime, ...]

    def lived(self, pool: str) -> Lived:
        """The chain as one buffer that is live from the first range to the last."""
        first, last = self.spans[0], self.spans[-1]
        return Lived(first.value.name, first.size_bytes, first.first, last.last, (pool,))


def chains(
    spans: Sequence[Lifetime], tasks: Iterable[Task], aliases: AliasSets, points: Mapping[Operation, int]
) -> list[Chain]:
    """Partition all live ranges into chains, most of length one. `points`: program points of operations.

    A result may overwrite an operand if both have the same size, the operand is read for the last time, and every tile
    reads exactly the part that it writes; no tile then finds its input overwritten by another tile.
    """
    by_root = {span.value: [span] for span in spans}
    for task in tasks:
        if not isinstance(task, TileTask) or len(task.operation.results) != 1:
            continue
        root, _ = aliases.place(task.operation.result)
        point = points[task.operation]
        born = by_root.get(root)
        if born is None or len(born) > 1 or born[0].first != point or born[0].value is not task.operation.result:
            continue
        for operand in task.operation.operands:
            before = by_root.get(operand)
            if before is not None and before is not born and _may_follow(before[-1], born[0], task, aliases, point):
                before += born
                by_root[root] = before
                del by_root[operand]
                break
    order = {span.value: number for number, span in enumerate(spans)}
    return [Chain(tuple(members)) for members in sorted(by_root.values(), key=lambda one: order[one[0].value])]


def boundary_alone(spans: Sequence[Lifetime], function: Function, aliases: AliasSets) -> list[Lifetime]:
    """Extend the live ranges of inputs and outputs over the whole program."""
    ends = [operation.result for operation in function.operations if isinstance(operation.op, NetworkInput)]
    boundary = {aliases.place(value)[0] for value in (*ends, *function.outputs)}
    last = len(function.operations)
    return [replace(span, first=-1, last=last) if span.value in boundary else span for span in spans]


def _may_follow(before: Lifetime, born: Lifetime, task: TileTask, aliases: AliasSets, point: int) -> bool:
    value = before.value
    if before.last != point or before.size_bytes != born.size_bytes or before.first >= point:
        return False
    if value.defining is None or isinstance(value.defining.op, NetworkInput):
        return False  # what the caller wrote is not overwritten
    residency = task.residency
    reading = [i for i, one in enumerate(task.operation.operands) if aliases.place(one)[0] is value]
    if 0 not in residency.written_back or any(i in residency.resident_in | residency.preloaded for i in reading):
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
    """Split each chain of the plan into its values; a value ends before the operation that overwrites it."""
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
