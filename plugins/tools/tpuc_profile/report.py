"""The figures of a profile, as text and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tpuc.api import Chip, Engine, HostCall, LoadedModel, TensorInfo, TensorType, visible
from tpuc_driver.api.host import HostTime, on_processor, shown_time

from tpuc_profile.analysis import Analysis, Step


@dataclass(frozen=True)
class WhatIf:
    """The same program on a chip whose DDR and clock are faster by these factors."""

    ddr: float = 1.0
    clock: float = 1.0
    cycles: int = 0
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """Everything that `tpuc profile` prints. The floor is the traffic that any program needs: constants, inputs, and
    outputs once, in the file's types.
    """

    file: str
    chip: Chip
    profile: str
    loaded: LoadedModel
    analysis: Analysis
    names: Sequence[str]
    reasons: Sequence[str]
    what_if: WhatIf | None = None
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    """Total cycles by every profile of the chip."""
    host_times: Sequence[HostTime] = ()
    """The functions on the processor, one for each of the file's calls."""

    @property
    def cycles(self) -> int:
        """Cycles of the whole program."""
        return self.analysis.timeline.cycles

    @property
    def milliseconds(self) -> float:
        """Time of the whole program."""
        return self._milliseconds(self.cycles)

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(info.size_bytes for info in self.loaded.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(info.size_bytes for info in self.loaded.outputs)

    @property
    def floor_bytes(self) -> int:
        """Minimum traffic of any program."""
        return self.analysis.weight_bytes + self.input_bytes + self.output_bytes

    @property
    def ddr_bytes(self) -> int:
        """Traffic of this program."""
        return self.analysis.read_bytes + self.analysis.written_bytes

    def commands(self, engine: Engine) -> int:
        """Number of commands of one engine."""
        return sum(entry.command.engine is engine for entry in self.analysis.timeline.entries)

    def step_name(self, step: Step) -> str:
        """Return the name of a layer, or of the tensor that a step writes."""
        return step.name or (self.names[step.tensor] if step.tensor >= 0 else "(nothing stored)")

    def text(self) -> str:
        """Format the report."""
        time = f"{self.milliseconds:.3f} ms{on_processor(self.host_times)}"
        lines = [f"{self.file}: {self.cycles:,} cycles = {time} on {self._profile}"]
        note = self.chip.profile_notes.get(self.profile)
        if note is not None:
            lines.append(f"profile '{self.profile}': {note}")
        if len(self.totals) > 1:
            totals = (f"'{name}' {all_:,} = {self._milliseconds(all_):.3f} ms" for name, all_ in self.totals.items())
            lines.append(f"cycles by each profile: {', '.join(totals)}")
        for core, engine, name in self.analysis.lanes:
            own = self.analysis.busy(core, engine)
            lines.append(f"{name}: {len(own)} commands, busy {sum(own):,} cycles{self._share(sum(own))}")
        overlap = self.analysis.overlap_cycles
        if self.analysis.cores == 1:
            lines.append(f"both engines at once: {overlap:,} cycles{self._share(overlap)}")
        calls = self.loaded.host_calls
        if calls:
            shown = ", ".join(_call_text(call, time) for call, time in zip(calls, self.host_times, strict=True))
            count = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
            lines.append(f"processor: {count} between TPU subnets, not included in the cycles: {shown}")
            lines.append(_crossings_text(calls))
        ratio = self.ddr_bytes / self.floor_bytes if self.floor_bytes else 0.0
        lines.append(
            f"DDR: {self.analysis.read_bytes:,} B read, {self.analysis.written_bytes:,} B written, {ratio:.2f} times "
            f"the floor of {self.floor_bytes:,} B (constants {self.analysis.weight_bytes:,}, "
            f"inputs {self.input_bytes:,}, outputs {self.output_bytes:,})"
        )
        lane = self.chip.lmem.lane_bytes
        for core in range(self.analysis.cores):
            owner = f" of core {core}" if self.analysis.cores > 1 else ""
            lines.append(f"local memory{owner}: {self.analysis.lmem_peak_of(core):,} of {lane:,} B per lane used")
        lines.append("memory: " + ", ".join(f"{name} {size:,} B" for name, size in self.loaded.memory.items()))
        if self.what_if is not None:
            lines.append(self._what_if_text(self.what_if))
        return "\n".join(map(visible, lines))

    @property
    def _profile(self) -> str:
        return f"{self.chip.description.name} ('{self.profile}')"

    def _milliseconds(self, cycles: int) -> float:
        return cycles / self.chip.description.clock_hz * 1000

    def _share(self, cycles: int) -> str:
        return f" ({cycles / self.cycles:.0%})" if self.cycles else ""

    def _what_if_text(self, what_if: WhatIf) -> str:
        change = f" ({what_if.milliseconds / self.milliseconds:.2f} times)" if self.milliseconds else ""
        return (
            f"with DDR {what_if.ddr:g} times and clock {what_if.clock:g} times as fast: {what_if.cycles:,} cycles = "
            f"{what_if.milliseconds:.3f} ms{change}"
        )

    def layer_rows(self, top: int = 0) -> list[tuple[str, ...]]:
        """Return a table of the layers in order, or of the slowest ones, slowest first."""
        known = any(step.name for step in self.analysis.steps)
        head = ("from", "to", "compute", "dma", "read B", "written B", "LMEM B", "layer" if known else "made")
        steps = sorted(self.analysis.steps, key=lambda step: -max(step.compute_cycles, step.dma_cycles))
        return [
            head,
            *(
                (
                    *(_cycle(step, step.start), _cycle(step, step.end)),
                    *(f"{one:,}" for one in (step.compute_cycles, step.dma_cycles, step.read_bytes)),
                    *(
                        f"{step.written_bytes:,}",
                        f"{step.lmem_bytes:,}",
                        self.step_name(step) + (f" ({step.op})" if step.op else ""),
                    ),
                )
                for step in (steps[:top] if top else self.analysis.steps)
            ),
        ]

    def to_json(self) -> Mapping[str, Any]:
        """Return plain values."""
        busy = self.analysis.timeline.busy
        values: dict[str, Any] = {
            "file": self.file,
            "chip": self.chip.description.name,
            "profile": self.profile,
            "profile_note": self.chip.profile_notes.get(self.profile, ""),
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "host_functions": [dict(vars(time)) for time in self.host_times],
            "cycles_by_profile": dict(self.totals),
            "busy_cycles": {engine.name.lower(): busy.get(engine, 0) for engine in Engine},
            "overlap_cycles": self.analysis.overlap_cycles,
            "commands": {engine.name.lower(): self.commands(engine) for engine in Engine},
            "memory_bytes": dict(self.loaded.memory),
            "ddr_bytes": {"read": self.analysis.read_bytes, "written": self.analysis.written_bytes},
            "floor_bytes": {
                "constants": self.analysis.weight_bytes,
                "inputs": self.input_bytes,
                "outputs": self.output_bytes,
            },
            "lmem_bytes_per_lane": {"peak": self.analysis.lmem_peak_bytes, "size": self.chip.lmem.lane_bytes},
            "layers": [
                {
                    "name": self.step_name(step),
                    **({"op": step.op} if step.op else {}),
                    "start": step.start,
                    "end": step.end,
                    "compute_cycles": step.compute_cycles,
                    "dma_cycles": step.dma_cycles,
                    "bound": step.bound,
                    "commands": step.commands,
                    "read_bytes": step.read_bytes,
                    "written_bytes": step.written_bytes,
                    "lmem_bytes_per_lane": step.lmem_bytes,
                }
                for step in self.analysis.steps
            ],
        }
        if self.analysis.cores > 1:
            values["cores"] = [
                {
                    "busy_cycles": {engine.name.lower(): sum(self.analysis.busy(core, engine)) for engine in Engine},
                    "commands": {engine.name.lower(): len(self.analysis.busy(core, engine)) for engine in Engine},
                    "lmem_peak_bytes_per_lane": self.analysis.lmem_peak_of(core),
                }
                for core in range(self.analysis.cores)
            ]
        if self.what_if is not None:
            values["what_if"] = vars(self.what_if)
        return values


def _cycle(step: Step, cycle: int) -> str:
    """Return when a step begins or ends; None for a layer without commands."""
    return f"{cycle:,}" if step.commands else "-"


def _call_text(call: HostCall, time: HostTime) -> str:
    """Describe the traffic and the estimated time of a runtime function."""
    traffic = f"{_bytes_of(call.inputs):,} B read, {_bytes_of(call.outputs):,} B written"
    return f"{call.function} ({traffic}, about {shown_time(time.milliseconds)})"


def _crossings_text(calls: Sequence[HostCall]) -> str:
    """Describe how often the program switches to the processor and back, and the data moved: calls at one position pass
    their results on.
    """
    there, back, visits = list[TensorInfo](), list[TensorInfo](), 0
    for _, visit in groupby(calls, key=lambda call: call.position):
        known = set[int]()
        for call in visit:
            there += [info for info in call.inputs if info.address not in known]
            back += call.outputs
            known |= {info.address for info in (*call.inputs, *call.outputs)}
        visits += 1
    count = "1 crossing" if visits == 1 else f"{visits} crossings"
    return f"processor: {count}, {_bytes_of(there):,} B to it, {_bytes_of(back):,} B back"


def _bytes_of(infos: Iterable[TensorInfo]) -> int:
    return sum(math.prod(info.shape) * TensorType(info.shape, info.element).storage.bits // 8 for info in infos)
