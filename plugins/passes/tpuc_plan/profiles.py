"""Estimate plans in every timing profile of a chip, and choose the plan that loses least in any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tpuc.api import (
    Chip,
    DecodedStreams,
    HazardError,
    LmemOverflow,
    Operation,
    Timeline,
    Value,
    check_cores,
    make_timelines,
)

from tpuc_plan.planners.alignment import align
from tpuc_plan.regions.emit import Emitter
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cost import Cycles

_ADDRESSES = 1.01
"""Factor of tolerated loss, because DDR addresses are not known yet: bursts that begin elsewhere in a page changed
totals by up to 2.5 %, and ratios between plans by less than half of that.
"""


def times_of(planned: PlannedFunction, cycles: Cycles) -> Sequence[int]:
    """Return the cycles of a planned function in each timing profile that plans are compared in, empty if its buffers
    cannot be placed. `cycles`: the profiles that order the program. The real instructions and waits are timed, at
    provisional DDR addresses.
    """
    return [timeline.cycles for timeline, _ in timelines_of(planned, cycles)]


def timelines_of(planned: PlannedFunction, cycles: Cycles) -> Sequence[tuple[Timeline, Mapping[int, Operation]]]:
    """Return the timeline in each timing profile that plans are compared in, with the operation of each instruction by
    its identity; empty if the buffers cannot be placed, or cores would disturb each other.
    """
    chip = cycles.chip
    address_of = _DdrAddresses(chip, planned.aliases).of
    parts: list[DecodedStreams] = []
    operations: dict[int, Operation] = {}
    for tasks, _ in planned.regions():
        if not tasks:
            continue
        asm = chip.assembler()
        emitter = Emitter(cycles, asm, address_of, lambda _: chip.description.ddr_base)
        try:
            emitter.run(replace(planned, tasks=tasks))
            check_cores(asm.parts(), ("ddr",), "plan")
        except (LmemOverflow, HazardError):
            return ()
        parts += asm.parts()
        operations.update(zip(map(id, asm.instructions), emitter.operations, strict=True))
    beside = partial(chip.cycles, profile=chip.shared_profile) if chip.shared_profile else None
    return [
        (make_timelines(parts, partial(chip.cycles, profile=name), beside), operations)
        for name in chip.planned_profiles
    ]


def least_loss(plans: Sequence[Sequence[int]]) -> int:
    """Return the index of the plan with the smallest worst-case ratio to the best plan of a profile; the first plan if
    it is within the uncertainty of addresses. `plans`: cycles by profile, empty for an impossible plan.
    """
    possible = [index for index, times in enumerate(plans) if times]
    best = [max(1, min(times)) for times in zip(*(plans[index] for index in possible), strict=True)]

    def worst(index: int) -> float:
        return max(cycles / least for cycles, least in zip(plans[index], best, strict=True))

    if not possible:
        return 0
    found = min(possible, key=worst)
    return possible[0] if worst(possible[0]) <= _ADDRESSES * worst(found) else found


class _DdrAddresses:
    """Provisional addresses: values that do not share bytes lie one after the other."""

    def __init__(self, chip: Chip, aliases: AliasSets) -> None:
        description = chip.description
        self._aliases = aliases
        self._alignment = description.ddr_alignment
        self._next = description.ddr_base if description.activations_base is None else description.activations_base
        self._known: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        root, offset = self._aliases.place(value)
        if root not in self._known:
            self._known[root] = self._next
            self._next = align(self._next + root.tensor.size_bytes, self._alignment)
        return self._known[root] + offset
