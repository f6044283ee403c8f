"""Estimate the time of functions that a chip's runtime computes on the processor.

The model has two rates of one in-order core: cycles per operation, and cycles per byte of the tensors. It was not
measured on a board: only the order of magnitude is meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpuc.api.chip import Chip, LoadedModel
from tpuc.registry import Registry
from tpuc.registry.cpu_functions import cpu_functions

CYCLES_PER_OPERATION = 2
"""A comparison or a multiplication with its loads, not vectorized."""
CYCLES_PER_BYTE = 1
"""Tensors come from DDR and go there: 1 GB/s at 1 GHz, as one core copies."""


@dataclass(frozen=True)
class HostTime:
    """The estimated time of one function on the processor."""

    function: str
    milliseconds: float


def host_milliseconds(chip: Chip, operations: int, size_bytes: int = 0) -> float:
    """Return the estimated time of so many operations on tensors of so many bytes."""
    cycles = CYCLES_PER_OPERATION * operations + CYCLES_PER_BYTE * size_bytes
    return cycles / chip.description.processor_hz * 1000


def host_times(registry: Registry, chip: Chip, loaded: LoadedModel) -> tuple[HostTime, ...]:
    """Return the functions of a file in program order. Those without a package count one operation per value."""
    calls = loaded.host_calls
    known = {one.function: one for one in cpu_functions(registry, chip.description.owners)} if calls else {}
    found: list[HostTime] = []
    for call in calls:
        inputs, outputs = ([math.prod(info.shape) for info in infos] for infos in (call.inputs, call.outputs))
        function = known.get(call.function)
        values = sum(inputs) + sum(outputs)
        operations = values if function is None else function.operations(inputs, call.arguments, outputs)
        size_bytes = sum(info.size_bytes for info in (*call.inputs, *call.outputs))
        found.append(HostTime(call.function, host_milliseconds(chip, operations, size_bytes)))
    return tuple(found)


def total_milliseconds(times: Iterable[HostTime]) -> float:
    """Return the time of all functions; they run one after another."""
    return sum(time.milliseconds for time in times)


def shown_time(milliseconds: float) -> str:
    """Format an estimated time with the two digits that it is worth: `0.0021 ms`, `13 ms`."""
    digits = 1 - math.floor(math.log10(milliseconds)) if milliseconds > 0 else 0
    return f"{milliseconds:.{max(digits, 0)}f} ms"


def on_processor(times: Sequence[HostTime]) -> str:
    """Return the time that comes on top of a chip's time, as a suffix; empty if there is none."""
    functions = [time.function for time in times]
    counts = {name: functions.count(name) for name in functions}
    names = [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
    if not names:
        return ""
    return f" + about {shown_time(total_milliseconds(times))} (estimated) for {', '.join(names)} on the processor"
