"""Facts about the toy chip and the chip object. Imported to list chips, so everything heavy is imported late."""

from __future__ import annotations

from tpuc.api import (
    Assembler,
    Chip,
    ChipDescription,
    CompiledLayout,
    ElementType,
    Engine,
    Instruction,
    LoadedModel,
    Module,
    Recorder,
    TensorType,
)
from tpuc_driver.api.board import Board

from toy_chip.lmem import ToyLmem
from toy_chip.operands import DDR_BASE, LANE_BYTES, LANES


def quantized_element(type: TensorType, mode: str, divisor: int, name: str) -> ElementType:  # noqa: ARG001  # one mode
    """Symmetric int8; uint8 where a value is never negative."""
    from tpuc_ops.quant.elements import symmetric_element

    return symmetric_element(type, divisor, name)


PROFILES = {"manual": "cycles from the toy's manual; there is no other source"}
"""Timing models, and how well their figures are known."""


class Toy(Chip):
    """8 lanes of 2 KiB, one compute engine, one DMA engine."""

    description = ChipDescription(
        name="toy",
        modes=("int8",),
        suffix=".toy",
        lanes=LANES,
        lmem_bytes=LANES * LANE_BYTES,
        ddr_base=DDR_BASE,
        ddr_alignment=64,
        quantized_element=quantized_element,
        clock_hz=100_000_000,
    )
    lmem = ToyLmem()
    profiles = tuple(PROFILES)
    profile_notes = PROFILES

    def assembler(self) -> Assembler:
        from toy_chip.assembler import ToyAssembler

        return ToyAssembler()

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from toy_chip.timing import cycles

        return cycles(instruction)

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        from toy_chip.container import ToyFile, write_file

        streams = {Engine.COMPUTE: bytearray(), Engine.DMA: bytearray()}
        for command in recorder.commands():
            streams[command.engine] += command.instruction.encode(command.number, command.wait)
        return write_file(
            ToyFile(
                layout.name,
                layout.inputs,
                layout.outputs,
                layout.weights,
                layout.weights_address,
                layout.activations_address,
                layout.activations_bytes,
                bytes(streams[Engine.COMPUTE]),
                bytes(streams[Engine.DMA]),
            )
        )

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        from toy_chip.container import read_file
        from toy_chip.simulator import ToyModel

        return ToyModel(read_file(data, source), source, len(data))


CHIP = Toy()
KIT = Board("Toy kit", "toy", 4096, "share of memory that the kit's manual leaves to networks")
