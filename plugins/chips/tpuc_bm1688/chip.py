"""The CV186x chip definition; sources: ISA notes in README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuc.api import (
    Assembler,
    BankConflict,
    Chip,
    ChipDescription,
    CompiledLayout,
    Instruction,
    LoadedModel,
    Module,
    NetworkEntry,
    Recorder,
)
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_ops.quant.elements import byte_element

from tpuc_bm1688.target import ACTIVATIONS, CV186X, WEIGHTS, tagged

if TYPE_CHECKING:
    from tpuc.api.boundary import Preprocess

FAMILY = "bm1684x"
"""The chip whose lowerings apply."""


def describe(target: Target) -> ChipDescription:
    """The chip description of a target."""
    return ChipDescription(
        name=target.name,
        modes=("f32", "f16", "bf16", "int8", "int8-asym"),
        suffix=".bmodel",
        lanes=target.lanes,
        lmem_bytes=target.lmem_bytes,
        ddr_base=tagged(WEIGHTS),
        ddr_alignment=4096,  # as the vendor's compiler does
        quantized_element=byte_element,
        lowering_families=(FAMILY,),
        clock_hz=target.clock_hz,
        activations_base=tagged(ACTIVATIONS),
        processor_hz=1_600_000_000,  # a guess for the Cortex-A53
        support=Path(__file__).with_name("support.json"),
        least_divisor=2.0**-125,
    )


PROFILES = {
    "scaled": "the rules of BM1684X with this chip's lanes, vectors, clock of 900 MHz and 24 GB/s of memory; not "
    "compared with the vendor's clock command by command, and not measured on a board",
}
"""Timing models, with the source and certainty of their figures."""


class SecondGeneration(Chip):
    """A chip with one TIU and one GDMA engine, and files with tagged addresses."""

    profiles = tuple(PROFILES)
    profile_notes = PROFILES
    allows_trailer = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self.description = describe(target)
        self.lmem = Bm1684xLmem(target)

    def assembler(self) -> Assembler:
        from tpuc_bm1684x.assembler import Bm1684xAssembler

        return Bm1684xAssembler(self.target)

    def block_pitch(self, lanes: int, bytes_per_lane: int) -> int:
        from tpuc_bm1684x.assembler import block_pitch

        return block_pitch(lanes, bytes_per_lane, self.target)

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_bm1684x.timing import cycles

        return cycles(instruction)

    def bank_conflicts(self, instruction: Instruction) -> Sequence[BankConflict]:
        from tpuc_bm1684x.timing.banks import bank_conflicts

        return bank_conflicts(instruction)

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        from tpuc_bm1684x.codegen import write_model

        return write_model(layout, recorder, self.target)

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        return self.load_network(data, source, 0)

    def networks(self, data: bytes, source: str = "<bytes>") -> Sequence[NetworkEntry]:
        from tpuc_bm1684x.loaded import networks_in

        return networks_in(data, source, self.target.file_chip)

    def load_network(self, data: bytes, source: str, index: int) -> LoadedModel:
        from tpuc_bm1684x.loaded import load_model

        from tpuc_bm1688.simulator import simulator_of

        return load_model(data, source, index, simulator_of(self.target))

    def combine(self, files: Sequence[bytes]) -> bytes:
        from tpuc_bm1684x.container.combining import combine

        return combine(files, self.target.file_chip)

    def extract(self, data: bytes) -> Sequence[tuple[str, bytes]]:
        from tpuc_bm1684x.container.combining import extract

        return extract(data, self.target.file_chip)

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        from tpuc_chip_parts.programs import Runtime, programs

        runtime = Runtime("/opt/sophon/libsophon-current", "bmruntime_interface.h", ("bmrt", "bmlib"))
        return programs("tpuc_bm1684x.programs", runtime, model, loaded, described, labels)


CHIP = SecondGeneration(CV186X)
"""Sophgo CV186x: 32 lanes of 128 KiB, one core; instructions, kernels and files of BM1684X."""
