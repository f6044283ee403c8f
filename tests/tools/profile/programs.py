"""A small machine and a program on it whose figures can be counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    Command,
    Engine,
    Instruction,
    LoadedModel,
    Region,
    ScalarType,
    TensorInfo,
    Timeline,
    derive_waits,
    make_timeline,
)

WEIGHTS, ACTIVATIONS = 0x1000, 0x8000


@dataclass(frozen=True)
class Move(Instruction):
    """Between DDR and local memory, one byte of a lane per cycle."""

    source: Region
    target: Region
    engine = Engine.DMA

    def reads(self) -> Sequence[Region]:
        return (self.source,)

    def writes(self) -> Sequence[Region]:
        return (self.target,)

    def encode(self, number: int, wait: int) -> bytes:
        raise NotImplementedError

    def execute(self, machine: Any) -> None:
        raise NotImplementedError

    def describe(self) -> str:
        return f"move {self.source.start} to {self.target.start}"


@dataclass(frozen=True)
class Work(Move):
    """Within local memory."""

    engine = Engine.COMPUTE

    def describe(self) -> str:
        return f"work </script> {self.source.start}"


def ddr(start: int, size: int) -> Region:
    return Region("ddr", start, start + size)


def lmem(start: int, size: int, lanes: int = 4) -> Region:
    return Region("lmem", start, start + size, 0, lanes)


PROGRAM = (
    Move(ddr(ACTIVATIONS, 40), lmem(0, 10)),  # the input, 4 lanes of 10
    Move(ddr(WEIGHTS, 80), lmem(16, 20)),  # constants of the first layer
    Work(lmem(0, 36), lmem(48, 30)),  # 30 cycles
    Move(ddr(WEIGHTS + 80, 20), lmem(80, 5)),  # constants of the second one, beside it
    Move(lmem(48, 30), ddr(ACTIVATIONS + 64, 120)),  # the first layer's result
    Move(ddr(ACTIVATIONS + 64, 120), lmem(100, 30)),
    Work(lmem(80, 50), lmem(0, 10)),
    Move(lmem(0, 10), ddr(ACTIVATIONS, 40)),  # the output, where the input was
)


def cycles(instruction: Instruction) -> int:
    region = instruction.writes()[0] if instruction.writes()[0].space == "lmem" else instruction.reads()[0]
    return region.end - region.start


class Loaded(LoadedModel):
    """A program as a compiled file."""

    def __init__(self, program: Sequence[Move] = PROGRAM) -> None:
        self._program = program
        self.inputs = (TensorInfo("x", (4, 10), ScalarType("si8"), ACTIVATIONS),)
        self.outputs = (TensorInfo("y", (4, 10), ScalarType("si8"), ACTIVATIONS),)

    def run(self, inputs: Mapping[str, Any], check: bool = True) -> dict[str, Any]:
        raise NotImplementedError

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Any:
        raise NotImplementedError

    def timeline(self, profile: str) -> Timeline:
        streams: dict[Engine, list[Command]] = {engine: [] for engine in Engine}
        for command in derive_waits(self._program):
            streams[command.engine].append(command)
        return make_timeline(dict(streams), cycles)

    def disassemble(self) -> str:
        raise NotImplementedError

    @property
    def memory(self) -> Mapping[str, int]:
        return {"weights": 100}
