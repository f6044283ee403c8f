"""The chip objects and their facts; sources: isa notes in docs/chips/cv183x.md."""

from __future__ import annotations

from tpuc.api import (
    Assembler,
    Chip,
    ChipDescription,
    CompiledLayout,
    ElementType,
    Instruction,
    LoadedModel,
    Module,
    Recorder,
    TensorType,
    Uniform,
    UniformPerAxis,
)
from tpuc_ops.quant.elements import symmetric_element

from tpuc_cv183x.isa.geometry import BASE_REGISTERS, FIRST_IO, PRIVATE, SHARED, WEIGHTS, gmem
from tpuc_cv183x.isa.target import CV183X, Target
from tpuc_cv183x.lmem import Cv183xLmem


def quantised_element(type: TensorType, _mode: str, divisor: int, name: str) -> ElementType:
    """Symmetric int8, uint8 where a value is never negative: zero points do not exist on this chip. What has scales per
    channel keeps them, and so does what is quantised already: its zero points are folded into biases and tables.
    """
    if isinstance(type.element, (Uniform, UniformPerAxis)):
        return type.element
    return symmetric_element(type, divisor, name)


def describe(target: Target) -> ChipDescription:
    """What the compiler is to know of a chip."""
    return ChipDescription(
        name=target.name,
        modes=("int8", "bf16"),
        suffix=".cvimodel",
        lanes=target.lanes,
        lmem_bytes=target.lmem_bytes,
        ddr_base=gmem(WEIGHTS),
        ddr_alignment=16,  # as the vendor's compiler does (isa notes, "Alignment rules")
        quantised_element=quantised_element,
        families=target.families,
        clock_hz=target.clock_hz,
        activations_base=gmem(SHARED),
        boundary_bases=tuple(gmem(base) for base in range(FIRST_IO, BASE_REGISTERS)),
        boundary_rest=gmem(PRIVATE),  # no other program and no activation ever lies there
        works_along_width=True,
        has_infinity=False,  # it reads one as NaN
    )


PROFILES = {
    "vendor": "rules of the vendor's open estimator; files of the vendor's compiler come within 3 % of the figures "
    "that it prints, no board was measured",
    "measured": "fits of a public trace of ResNet-50 on a CV1835 for convolutions and transfers, the rest as in "
    "'vendor'; copies differ from 'vendor' by up to 1.8 times",
}
"""Timing models, and how well their figures are known."""


class Cv183x(Chip):
    """Lanes of 32 KiB, one TIU, one TDMA engine, and the functions of the runtime on the host."""

    profiles = tuple(PROFILES)
    profile_notes = PROFILES

    def __init__(self, target: Target) -> None:
        self.target = target
        self.description = describe(target)
        self.lmem = Cv183xLmem(target)

    def assembler(self) -> Assembler:
        from tpuc_cv183x.assembler import Cv183xAssembler

        return Cv183xAssembler(self.target)

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv183x.timing import cycles

        return cycles(instruction, profile)

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        from tpuc_cv183x.codegen import write_model

        return write_model(layout, recorder, self.target)

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        from tpuc_cv183x.loaded import load_model

        return load_model(data, source, self.target)


CHIP = Cv183x(CV183X)
