"""Files of the toy chip: programs run from their bytes, hazards are found, damage is noticed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_chip import isa
from toy_chip.chip import KIT
from toy_chip.container import ToyFile, read_file, write_file
from toy_chip.operands import DDR_BASE, DType, Operand, Strided
from toy_chip.simulator import ToyModel
from toy_chip.timing import cycles
from tpuc.api import (
    CorruptFile,
    Engine,
    HazardError,
    IllegalCommand,
    Instruction,
    Recorder,
    ScalarType,
    TensorInfo,
    Uniform,
    UsageError,
)

I8 = DType.I8


def test_a_board_takes_what_fits_its_memory() -> None:
    loaded = ToyModel(read_file(program(), "f"), "f", 0)
    assert loaded.device_bytes == {"weights": 0, "activations": 128, "code": 0}
    assert KIT.refuses_chip("toy") is None
    assert KIT.refuses_size(sum(loaded.device_bytes.values())) is None
    assert KIT.refuses_size(4096) is None
    assert KIT.refuses_size(5120) == "Toy kit reserves 4 KiB for networks, but this one needs 5 KiB"


def clamped(values: Sequence[Sequence[int]], low: int, high: int) -> list[list[int]]:
    return [[max(low, min(high, value)) for value in row] for row in values]


def program(*instructions: Instruction, waits: Sequence[int] | None = None) -> bytes:
    """A file of one input and one output of 16 bytes each, with derived waits or given ones."""
    recorder = Recorder()
    for instruction in instructions:
        recorder.record(instruction)
    streams = dict.fromkeys(Engine, b"")
    for index, command in enumerate(recorder.commands()):
        wait = command.wait if waits is None else waits[index]
        streams[command.engine] += command.instruction.encode(command.number, wait)
    element = Uniform(ScalarType("i8"), ScalarType("f32"), 0.5)
    return write_file(
        ToyFile(
            "copy",
            (TensorInfo("x", (2, 8), element, DDR_BASE),),
            (TensorInfo("y", (2, 8), element, DDR_BASE + 64),),
            b"",
            DDR_BASE,
            DDR_BASE,
            128,
            streams[Engine.COMPUTE],
            streams[Engine.DMA],
        )
    )


TILE = Operand(0, (1, 8, 2, 1), I8)
X, Y = (Strided(DDR_BASE + at, TILE.shape, (16, 1, 8, 1), I8) for at in (0, 64))
COPY = (isa.Load(TILE, X), isa.Clamp(TILE, TILE, -3, 3), isa.Store(Y, TILE))


def open_file(data: bytes) -> ToyModel:
    return ToyModel(read_file(data, "copy.toy"), "copy.toy", len(data))


def test_a_file_runs_many_times() -> None:
    model = open_file(program(*COPY))
    for offset in (0, 5):
        x = np.arange(-8, 8, dtype=np.int8).reshape(2, 8) + np.int8(offset)
        result = model.run({"x": x})
        assert result["y"].tolist() == clamped(x.tolist(), -3, 3)
        assert np.array_equal(model.read(DDR_BASE + 64, (2, 8), ScalarType("i8")), result["y"])


def test_the_same_program_gives_the_same_bytes() -> None:
    assert program(*COPY) == program(*COPY)


def test_a_missing_wait_is_a_hazard_even_if_the_result_is_right() -> None:
    model = open_file(program(*COPY, waits=(0, 0, 1)))
    with pytest.raises(HazardError, match=r"nothing orders compute command 1 and DMA command 1.*lmem 0x0 to 0x8"):
        model.run({"x": np.zeros((2, 8), np.int8)})
    model.run({"x": np.zeros((2, 8), np.int8)}, check=False)


def test_engines_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(IllegalCommand, match="both engines wait for each other"):
        open_file(program(*COPY, waits=(1, 1, 1))).run({"x": np.zeros((2, 8), np.int8)})


def test_engines_overlap_in_the_timeline() -> None:
    other = Operand(512, TILE.shape, I8)
    timeline = open_file(program(*COPY[:2], isa.Load(other, X), COPY[2])).timeline("manual")
    assert timeline.cycles < sum(timeline.busy.values())
    assert timeline.busy[Engine.COMPUTE] == cycles(COPY[1])


def test_disassembly_names_every_command() -> None:
    lines = open_file(program(*COPY)).disassemble().splitlines()
    assert [line.split()[5] for line in lines] == ["Load", "Clamp", "Store"]


def test_inputs_must_fit() -> None:
    model = open_file(program(*COPY))
    with pytest.raises(UsageError, match="input 'x' is missing"):
        model.run({})
    with pytest.raises(UsageError, match=r"input 'x' is \(16,\), the file expects \(2, 8\)"):
        model.run({"x": np.zeros(16, np.int8)})
    with pytest.raises(UsageError, match="input 'x' holds values that int8 cannot represent; quantize it first"):
        model.run({"x": np.full((2, 8), 128)})


def test_corrupt_files_are_refused_with_a_sentence() -> None:
    data = program(*COPY)
    version = data[:8] + struct.pack("<I", 2) + data[12:]
    for corrupt, sentence in [
        (b"", r"not a file for the toy chip; make one with `tpuc compile --chip toy`"),
        (b"\x7fELF" + data[4:], r"not a file for the toy chip"),
        (data[:20], r"truncated within its first 28 bytes"),
        (version, r"format version 2, this package reads 1"),
        (data[:-7], rf"{len(data) - 7} bytes where its header says {len(data)}"),
        (data + b"!", r"copy or compile it again"),
        (data[:60] + b"\0" + data[61:], r"its checksum does not fit its content"),
    ]:
        with pytest.raises(CorruptFile, match=f"copy.toy: .*{sentence}|copy.toy: {sentence}"):
            read_file(corrupt, "copy.toy")


@given(st.data())
def test_no_single_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    good = program(*COPY)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    with pytest.raises(CorruptFile):
        read_file(changed, "copy.toy")


def test_a_command_in_the_wrong_stream_is_refused() -> None:
    content = read_file(program(*COPY), "copy.toy")
    swapped = ToyFile(**{**vars(content), "compute": content.dma, "dma": content.compute})
    with pytest.raises(CorruptFile, match="command 1 of the COMPUTE stream is out of place"):
        open_file(write_file(swapped))
