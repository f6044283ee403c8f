"""The chip object of a `Target`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuc.api import (
    Assembler,
    Chip,
    ChipDescription,
    CompiledLayout,
    ElementType,
    Instruction,
    LoadedModel,
    Module,
    NetworkEntry,
    Recorder,
    TensorType,
)
from tpuc_ops.quant.elements import byte_element

from tpuc_cv18.isa.geometry import BASE_REGISTERS, FIRST_IO, PRIVATE, SHARED, WEIGHTS, gmem
from tpuc_cv18.isa.target import FAMILY, Target
from tpuc_cv18.lmem import Cv18Lmem
from tpuc_cv18.runtimes import NEWEST, version_for

if TYPE_CHECKING:
    from tpuc.api.boundary import Preprocess


def quantized_element(type: TensorType, _mode: str, divisor: int, name: str) -> ElementType:
    """Store as symmetric int8, or uint8 where a value is never negative: the chip has no zero points. Per-channel
    scales and prequantized types are kept; zero points of the latter are folded into biases and tables.
    """
    return byte_element(type, "int8", divisor, name)


@dataclass(frozen=True)
class Cv18Description(ChipDescription):
    """A chip description with the limits that the family's lowerings need, see `Target`."""

    largest_insert: int = 15
    largest_stride: int = 15
    dilates_per_channel: bool = True


def describe(target: Target) -> Cv18Description:
    """The chip description of a target."""
    return Cv18Description(
        name=target.name,
        modes=("int8", "bf16"),
        suffix=".cvimodel",
        lanes=target.lanes,
        lmem_bytes=target.lmem_bytes,
        ddr_base=gmem(WEIGHTS),
        ddr_alignment=16,  # as the vendor's compiler does (isa notes, "Alignment rules")
        quantized_element=quantized_element,
        families=(FAMILY,),
        clock_hz=target.clock_hz,
        activations_base=gmem(SHARED),
        boundary_bases=tuple(gmem(base) for base in range(FIRST_IO, BASE_REGISTERS)),
        boundary_rest=gmem(PRIVATE),  # no other program or activation is ever stored there
        works_along_width=True,
        keeps_state=True,
        has_infinity=False,  # it reads one as NaN
        least_divisor=2.0**-63,  # reciprocals of less come from the half of the table for the other sign
        largest_insert=target.largest_insert,
        largest_stride=target.largest_stride,
        dilates_per_channel=target.dilates_per_channel,
        frame_alignment=target.frame_alignment,
        support=Path(__file__).with_name("support") / f"{target.name}.json",
    )


class Cv18Chip(Chip):
    """A chip with lanes of 32 KiB, one TIU, one TDMA engine, and host functions in the runtime."""

    allows_trailer = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self.profiles = tuple(target.profiles)
        self.profile_notes = {name: profile.note for name, profile in target.profiles.items()}
        self.description = describe(target)
        self.lmem = Cv18Lmem(target)
        self.file_version = NEWEST

    def for_runtime(self, version: str) -> Chip:
        chip = copy.copy(self)
        chip.file_version = version_for(version)
        return chip

    @property
    def planned_profiles(self) -> tuple[str, ...]:
        return tuple(name for name in self.profiles if self.target.profiles[name].is_planned)

    def assembler(self) -> Assembler:
        from tpuc_cv18.assembler import Cv18Assembler

        return Cv18Assembler(self.target)

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv18.timing import cycles

        return cycles(instruction, profile)

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        from tpuc_cv18.codegen import write_model

        return write_model(layout, recorder, self.target, self.file_version)

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        from tpuc_cv18.loaded import load_model

        return load_model(data, source, self.target)

    def load_written(self, data: bytes, source: str, instructions: Sequence[Instruction]) -> LoadedModel:
        from tpuc_cv18.loaded import load_model

        return load_model(data, source, self.target, written=instructions)

    def networks(self, data: bytes, source: str = "<bytes>") -> Sequence[NetworkEntry]:
        from tpuc_cv18.loaded import networks_in

        return networks_in(data, source, self.target)

    def load_network(self, data: bytes, source: str, index: int) -> LoadedModel:
        from tpuc_cv18.loaded import load_model

        return load_model(data, source, self.target, index)

    def combine(self, files: Sequence[bytes]) -> bytes:
        from tpuc_cv18.container.combining import combine

        return combine(files, self.target)

    def extract(self, data: bytes) -> Sequence[tuple[str, bytes]]:
        from tpuc_cv18.container.combining import extract

        return extract(data, self.target)

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        from tpuc_chip_parts.programs import Runtime, programs

        runtime = Runtime("/mnt/cvitek_tpu_sdk", "cviruntime.h", ("cviruntime", "cvikernel"))
        return programs("tpuc_cv18.programs", runtime, model, loaded, described, labels)
