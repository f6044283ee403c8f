"""What the session tells: for people as text, for programs as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuc.api.chip import TensorInfo
from tpuc.api.planning import MemoryPlan
from tpuc.ir import TensorType, Uniform


@dataclass(frozen=True)
class StageComparison:
    """How alike two stages are on a test input: the lowest similarity over `tensors` tensors, and where it is.

    `stored` of them are integers on both sides that differ by one step at most.
    """

    stages: str
    tensors: int
    cosine: float
    euclidean: float
    worst: str
    stored: int = 0

    def text(self) -> str:
        """One line."""
        text = (
            f"{self.stages}: {self.tensors} tensors, cosine >= {self.cosine:.6f}, euclidean >= {self.euclidean:.6f} "
            f"(lowest at '{self.worst}')"
        )
        return f"{text}, {self.stored} of integers that differ by one step at most" if self.stored else text


@dataclass(frozen=True)
class CompileReport:
    """The result of a compilation. Sizes in bytes, `seconds` per stage are never part of any artefact."""

    model: str
    chip: str
    mode: str
    ops: int
    memory: Mapping[str, int]
    cycles: int
    milliseconds: float
    profile: str
    comparisons: tuple[StageComparison, ...] = ()
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    memory_plan: MemoryPlan | None = None

    def text(self) -> str:
        """A few lines."""
        memory = ", ".join(f"{name} {size:,} B" for name, size in self.memory.items())
        lines = [
            f"{self.model}: {self.ops} ops, {self.mode} for {self.chip}",
            *(f"input {shown_tensor(info)}" for info in self.inputs),
            *(f"output {shown_tensor(info)}" for info in self.outputs),
            f"memory: {memory}",
            f"predicted: {self.cycles:,} cycles = {self.milliseconds:.3f} ms (timing profile '{self.profile}')",
            *(comparison.text() for comparison in self.comparisons),
        ]
        return "\n".join(lines)

    def to_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return {
            "model": self.model,
            "chip": self.chip,
            "mode": self.mode,
            "ops": self.ops,
            "inputs": [_tensor_values(info) for info in self.inputs],
            "outputs": [_tensor_values(info) for info in self.outputs],
            "memory_bytes": dict(self.memory),
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "profile": self.profile,
            "comparisons": [
                {
                    "stages": comparison.stages,
                    "tensors": comparison.tensors,
                    "cosine": comparison.cosine,
                    "euclidean": comparison.euclidean,
                    "worst": comparison.worst,
                }
                for comparison in self.comparisons
            ],
            "seconds": dict(self.seconds),
        }


@dataclass(frozen=True)
class ProfileReport:
    """How long a compiled file takes by a timing profile. `note`: how well the chip says that the profile is known."""

    file: str
    chip: str
    profile: str
    cycles: int
    milliseconds: float
    busy: Mapping[str, int]
    commands: Mapping[str, int]
    memory: Mapping[str, int]
    note: str = ""

    def text(self) -> str:
        """A few lines."""
        lines = [f"{self.file}: {self.cycles:,} cycles = {self.milliseconds:.3f} ms on {self.chip} ('{self.profile}')"]
        if self.note:
            lines.append(f"profile '{self.profile}': {self.note}")
        for engine, cycles in self.busy.items():
            share = cycles / self.cycles if self.cycles else 0.0
            lines.append(f"{engine}: {self.commands[engine]} commands, busy {cycles:,} cycles ({share:.0%})")
        lines.append("memory: " + ", ".join(f"{name} {size:,} B" for name, size in self.memory.items()))
        return "\n".join(lines)

    def to_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return {
            "file": self.file,
            "chip": self.chip,
            "profile": self.profile,
            "profile_note": self.note,
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "busy_cycles": dict(self.busy),
            "commands": dict(self.commands),
            "memory_bytes": dict(self.memory),
        }


def shown_tensor(info: TensorInfo, *, plain: bool = False) -> str:
    """An input or output as people read it; how integers are meant unless they mean themselves or it is `plain`."""
    values = _tensor_values(info)
    text = f"'{info.name}': {values['type']} {'x'.join(map(str, info.shape))}"
    if plain or (values["scale"], values["zero_point"]) == (1.0, 0):
        return text
    return f"{text}, scale {values['scale']:.9g}, zero point {values['zero_point']}"


def _tensor_values(info: TensorInfo) -> dict[str, Any]:
    scale, zero_point = 1.0, 0
    if isinstance(info.element, Uniform):
        scale, zero_point = info.element.scale, info.element.zero_point
    storage = TensorType(info.shape, info.element).storage.name
    return {
        "name": info.name,
        "shape": list(info.shape),
        "type": storage,
        "scale": scale,
        "zero_point": zero_point,
    }
