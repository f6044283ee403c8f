"""Simulation parts common to all chips: instructions, regions, wait ids, hazards and timelines."""

from __future__ import annotations

from tpuc.machine.cores import check_cores as check_cores
from tpuc.machine.cores import core_hazards as core_hazards
from tpuc.machine.footprint import RegionTensor as RegionTensor
from tpuc.machine.hazards import Hazard as Hazard
from tpuc.machine.hazards import commands_done as commands_done
from tpuc.machine.hazards import find_hazards as find_hazards
from tpuc.machine.instruction import Command as Command
from tpuc.machine.instruction import Engine as Engine
from tpuc.machine.instruction import Instruction as Instruction
from tpuc.machine.instruction import Region as Region
from tpuc.machine.recorder import Recorder as Recorder
from tpuc.machine.recorder import derive_waits as derive_waits
from tpuc.machine.simulation import DecodedStreams as DecodedStreams
from tpuc.machine.simulation import StoredInput as StoredInput
from tpuc.machine.simulation import make_timelines as make_timelines
from tpuc.machine.simulation import serial_order as serial_order
from tpuc.machine.simulation import show_region as show_region
from tpuc.machine.simulation import stored_inputs as stored_inputs
from tpuc.machine.simulation import stretches as stretches
from tpuc.machine.timeline import Timeline as Timeline
from tpuc.machine.timeline import TimelineEntry as TimelineEntry
from tpuc.machine.timeline import make_timeline as make_timeline
