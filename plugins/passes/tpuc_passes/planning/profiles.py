"""What a plan takes in every timing profile of a chip, and which of several plans loses least in any."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from tpuc.api import (
    ArrayAttr,
    Chip,
    Command,
    DecodedStreams,
    Engine,
    LmemOverflow,
    Module,
    PassContext,
    StringAttr,
    Value,
    make_timelines,
)

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.emit import Emitter
from tpuc_passes.planning.kernels import tasks_of
from tpuc_passes.planning.memory import align
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.task import HostTask

ORDER = "module.order_profiles"
"""On a module: the timing profiles by which its program is ordered, where they are not the chip's first one."""


_ADDRESSES = 1.01
"""Addresses in DDR are not known yet; where bursts begin in a page changed totals by up to 2.5 %, and plans differently
by less than half of that.
"""


def order_cycles(module: Module, chip: Chip) -> Cycles:
    """What the order of a program is chosen by."""
    names = module.attributes.get(ORDER)
    assert names is None or isinstance(names, ArrayAttr)
    return Cycles(chip, [item.value for item in names.items if isinstance(item, StringAttr)] if names else ())


def write_order(module: Module, cycles: Cycles) -> None:
    """Note what the order of the program is chosen by."""
    module.attributes.pop(ORDER, None)
    if cycles.profiles != cycles.chip.profiles[:1]:
        module.attributes[ORDER] = ArrayAttr(tuple(StringAttr(name) for name in cycles.profiles))


def times_of(module: Module, context: PassContext, cycles: Cycles) -> Sequence[int]:
    """Cycles of the written plan by each profile of the chip, ordered by some of them: of the very instructions with
    their waits, at made-up addresses in DDR. Empty where its buffers cannot be placed.
    """
    chip = cycles.chip
    places = Places(module.main.operations)
    address_of = _Addresses(chip, places).of
    constants = chip.description.ddr_base
    parts: list[DecodedStreams] = []
    for on_host, tasks in groupby(tasks_of(context, module.main), lambda task: isinstance(task, HostTask)):
        if on_host:
            continue
        asm = chip.assembler()
        try:
            Emitter(cycles, asm, address_of, places).run([(task, constants) for task in tasks])
        except LmemOverflow:
            return ()
        streams: dict[Engine, list[Command]] = {engine: [] for engine in Engine}
        commands = asm.commands()
        for command in commands:
            streams[command.instruction.engine].append(command)
        parts.append(DecodedStreams(streams[Engine.COMPUTE], streams[Engine.DMA], commands))
    return [make_timelines(parts, partial(chip.cycles, profile=name)).cycles for name in chip.profiles]


def least_loss(plans: Sequence[Sequence[int]]) -> int:
    """The plan whose worst ratio to the best plan of a profile is the smallest; the first one where that is no worse
    than what addresses change. `plans`: cycles by profile, none where a plan is impossible.
    """
    possible = [index for index, times in enumerate(plans) if times]
    best = [max(1, min(times)) for times in zip(*(plans[index] for index in possible), strict=True)]

    def worst(index: int) -> float:
        return max(cycles / least for cycles, least in zip(plans[index], best, strict=True))

    if not possible:
        return 0
    found = min(possible, key=worst)
    return possible[0] if worst(possible[0]) <= _ADDRESSES * worst(found) else found


class _Addresses:
    """Addresses for values that do not share bytes, one behind the other."""

    def __init__(self, chip: Chip, places: Places) -> None:
        description = chip.description
        self._places = places
        self._alignment = description.ddr_alignment
        self._next = description.ddr_base if description.activations_base is None else description.activations_base
        self._known: dict[int, int] = {}

    def of(self, value: Value) -> int:
        place = self._places.place(value)
        key = id(place.root)
        if key not in self._known:
            self._known[key] = self._next
            self._next = align(self._next + place.root.tensor.size_bytes, self._alignment)
        return self._known[key] + place.offset_bytes
