"""What every simulated chip shares: instructions, regions, wait ids, hazards and timelines."""

from __future__ import annotations

from tpuc.machine.footprint import RegionTensor
from tpuc.machine.hazards import Hazard, commands_done, find_hazards
from tpuc.machine.instruction import Command, Engine, Instruction, Region
from tpuc.machine.recorder import Recorder, derive_waits
from tpuc.machine.simulation import (
    DecodedStreams,
    StoredInput,
    make_timelines,
    serial_order,
    show_region,
    stored_inputs,
)
from tpuc.machine.timeline import Timeline, TimelineEntry, make_timeline

__all__ = [
    "Command",
    "DecodedStreams",
    "Engine",
    "Hazard",
    "Instruction",
    "Recorder",
    "Region",
    "RegionTensor",
    "StoredInput",
    "Timeline",
    "TimelineEntry",
    "commands_done",
    "derive_waits",
    "find_hazards",
    "make_timeline",
    "make_timelines",
    "serial_order",
    "show_region",
    "stored_inputs",
]
