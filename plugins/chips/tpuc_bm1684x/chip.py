"""The BM1684X chip definition; sources: ISA notes in docs/chips/bm1684x.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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
from tpuc_ops.quant.elements import byte_element

from tpuc_bm1684x.isa.geometry import RESET_INPUT
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.lmem import Bm1684xLmem

if TYPE_CHECKING:
    from tpuc.api.boundary import Preprocess

    from tpuc_bm1684x.simulator import Simulator

DESCRIPTION = ChipDescription(
    name="bm1684x",
    modes=("f32", "f16", "bf16", "int8", "int8-asym"),
    suffix=".bmodel",
    lanes=BM1684X.lanes,
    lmem_bytes=BM1684X.lmem_bytes,
    ddr_base=BM1684X.ddr_base,
    ddr_alignment=4096,  # each tensor, as the vendor's compiler does (isa notes, "Sizes")
    quantized_element=byte_element,
    clock_hz=1_000_000_000,  # both engines in the vendor's performance model
    processor_hz=2_300_000_000,  # eight Cortex-A53; a host on PCIe is faster
    support=Path(__file__).with_name("support.json"),
    keeps_state=True,
    reset_input=RESET_INPUT,
    least_divisor=2.0**-125,  # the reciprocal of less is infinite, and denormal numbers are 0
)


class Bm1684x(Chip):
    """BM1684X, or another chip with its engines (one TIU, one GDMA) and its files."""

    allows_trailer = True

    def __init__(self, target: Target = BM1684X, description: ChipDescription = DESCRIPTION) -> None:
        self.target = target
        self.description = description
        self.lmem = Bm1684xLmem(target)
        self.profiles = tuple(target.profiles)
        self.shared_profile = target.shared_profile
        self.profile_notes = {name: profile.note for name, profile in target.profiles.items()}

    @property
    def planned_profiles(self) -> tuple[str, ...]:
        return self.profiles[:1]

    @property
    def simulator(self) -> type[Simulator]:
        """What runs a network of a file."""
        from tpuc_bm1684x.simulator import Simulator

        return Simulator

    def assembler(self) -> Assembler:
        from tpuc_bm1684x.assembler import Bm1684xAssembler

        return Bm1684xAssembler(self.target)

    def block_pitch(self, lanes: int, bytes_per_lane: int) -> int:
        from tpuc_bm1684x.assembler import block_pitch

        return block_pitch(lanes, bytes_per_lane, self.target)

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_bm1684x.timing import cycles

        return cycles(instruction, self.target.profiles[profile].rates)

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

        return load_model(data, source, index, self.simulator)

    def combine(self, files: Sequence[bytes]) -> bytes:
        from tpuc_bm1684x.container.combining import combine

        return combine(files, self.target.file_chip)

    def combine_parts(self, files: Iterable[bytes], rest: BinaryIO) -> bytes:
        from tpuc_bm1684x.container.combining import combine_parts

        return combine_parts(files, rest, self.target.file_chip)

    def extract(self, data: bytes) -> Sequence[tuple[str, bytes]]:
        from tpuc_bm1684x.container.combining import extract

        return extract(data, self.target.file_chip)

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        from tpuc_chip_parts.programs import Runtime, programs

        runtime = Runtime("/opt/sophon/libsophon-current", "bmruntime_interface.h", ("bmrt", "bmlib"))
        return programs("tpuc_bm1684x.programs", runtime, model, loaded, described, labels)


CHIP = Bm1684x()
"""64 lanes of 256 KiB."""
