"""Whole files: reading, writing, disassembly, execution, timing, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from tpuc.api import (
    Command,
    CorruptFile,
    Engine,
    HazardError,
    IllegalCommand,
    Unsupported,
    UsageError,
    derive_waits,
)
from tpuc_cv18.container import (
    CpuRoutine,
    CviModel,
    Program,
    Routine,
    Section,
    SectionKind,
    Tensor,
    TensorType,
    TpuRoutine,
    read_arguments,
    write_arguments,
)
from tpuc_cv18.container.lz4 import decompress_block
from tpuc_cv18.disassembler import disassemble
from tpuc_cv18.isa import (
    Arithmetic,
    ArithmeticOp,
    DType,
    Operand,
    TensorCopy,
    decode_cmdbuf,
    decode_dmabuf,
    encode_cmdbuf,
    encode_dmabuf,
    gmem,
)
from tpuc_cv18.loaded import load_model
from tpuc_cv18.simulator import Simulator
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18 import small_program
from tests.chips.cv18.draw import Array
from tests.chips.cv18.small_program import SHAPE
from tests.families import each

FOLDER = Path(__file__).parent / "goldens"
FILES = sorted(path.stem for path in FOLDER.glob("*.cvimodel"))
OUTPUTS: dict[str, Array] = dict(np.load(FOLDER / "outputs.npz"))

ALLOWED = (CorruptFile, IllegalCommand, HazardError, Unsupported, UsageError)


def read(name: str) -> bytes:
    return (FOLDER / f"{name}.cvimodel").read_bytes()


def arrays(name: str, kind: str) -> dict[str, Array]:
    start = f"{name}.{kind}."
    return {key.removeprefix(start): value for key, value in OUTPUTS.items() if key.startswith(start)}


@pytest.mark.parametrize("name", FILES)
class TestVendorFiles:
    def test_the_vendors_runtime_gives_the_same_outputs_every_time(self, name: str) -> None:
        model = load_model(read(name), name, CV183X)
        for _ in range(2):
            results = model.run(arrays(name, "in"))
            for key, wanted in arrays(name, "out").items():
                assert np.array_equal(results[key].reshape(-1), wanted.reshape(-1)), key

    def test_it_survives_reading_and_writing(self, name: str) -> None:
        model = CviModel.from_bytes(read(name), CV183X)
        again = model.to_bytes()
        assert CviModel.from_bytes(again, CV183X) == model
        assert model.to_bytes() == again

    def test_command_buffers_come_back_bit_for_bit(self, name: str) -> None:
        section = CviModel.from_bytes(read(name), CV183X).section(SectionKind.CMDBUF)
        assert section is not None
        (segment,) = decode_cmdbuf(section.data, CV183X)
        assert encode_cmdbuf(segment.order, CV183X) == section.data
        (stored,) = decode_dmabuf(encode_dmabuf([segment], CV183X), CV183X)
        for engine in Engine:
            assert stored.stream(engine) == segment.stream(engine)

    def test_the_disassembly_shows_every_command(self, name: str) -> None:
        model = CviModel.from_bytes(read(name), CV183X)
        section = model.section(SectionKind.CMDBUF)
        assert section is not None
        text = disassemble(read(name), CV183X)
        (segment,) = decode_cmdbuf(section.data, CV183X)
        assert text.count("\n    tiu ") == len(segment.stream(Engine.COMPUTE))
        assert text.count("\n    tdma ") == len(segment.stream(Engine.DMA))
        assert "unreadable" not in text


def test_the_disassembly_names_operands() -> None:
    text = disassemble(read("handmade_conv_int8"), CV183X)
    assert "  input x int8 1x6x9x8 at g3+0x0" in text
    assert (
        "    tiu      1 wait 3     conv result=[0xe0]:int8 result_shape=1x40x9x8 input=[0x0]:int8 input_shape=6x9x8 "
        "weight=[0x50]:int8 compact kernel=3x3 pads=1x1x1x1 block=[0xc0] double=yes\n"
    ) in text
    quantizes = "cpu quant(from=FP32, scale=33.87342071533203, to=INT8) x -> xa_Relu_si8"
    assert quantizes in disassemble(read("net20_cv183x_int8"), CV183X)


class TestTiming:
    def test_the_vendor_profile_is_near_the_vendors_figure(self) -> None:
        micros = load_model(read("resnet8_cv183x_int8"), "resnet8", CV183X).timeline("vendor").cycles / 650
        assert abs(micros / 41.8 - 1) < 0.05  # 41.8 us by the vendor's estimator, both engines overlapped

    def test_profiles_differ_and_unknown_ones_are_refused(self) -> None:
        model = load_model(read("net20_cv183x_bf16"), "net20", CV183X)
        vendor, measured = (model.timeline(profile) for profile in ("vendor", "measured"))
        assert vendor.cycles != measured.cycles
        with pytest.raises(UsageError, match="cv183x: no timing profile 'fast'; it has vendor, measured"):
            model.timeline("fast")


# -- own programs ------------------------------------------------------------------------------------------------------


def file_of(commands: list[Command]) -> CviModel:
    """The small program for the chip."""
    return small_program.file_of(commands, CV183X)


def numbered(instructions: list[TensorCopy | Arithmetic]) -> list[Command]:
    """Commands of the chip, with their waits."""
    return derive_waits([one.on(CV183X) for one in instructions])


def values() -> Array:
    return np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)


class TestRunning:
    def test_a_small_program_saturates(self) -> None:
        result = Simulator(file_of(numbered(small_program.negate()))).run({"x": values()})["y"]
        assert np.array_equal(result, np.clip(-values().astype(int), -128, 127))

    def test_a_dma_buffer_runs_like_a_command_buffer(self) -> None:
        model = file_of(numbered(small_program.negate()))
        (segment,) = decode_cmdbuf(model.sections[1].data, CV183X)
        stored = Section(SectionKind.DMABUF, "dma", encode_dmabuf([segment], CV183X))
        program = model.programs[0]
        routine = Routine(TpuRoutine(dmabuf="dma"), ("x",), ("y",))
        changed = Program(program.inputs, program.outputs, program.tensors, (routine,))
        other = CviModel(CV183X, "net", (changed,), (model.sections[0], stored))
        wanted = Simulator(model).run({"x": values()})["y"]
        assert np.array_equal(Simulator.from_bytes(other.to_bytes(), CV183X).run({"x": values()})["y"], wanted)

    def test_overwritten_weights_stay_until_they_are_loaded_again(self) -> None:
        """As in the vendor's runtime (tests/interop/cv18xx/test_states.py), which loads them once."""
        out = TensorCopy(source=gmem(1), destination=gmem(4), shape=SHAPE, dtype=DType.INT8)
        spoil = TensorCopy(source=gmem(3), destination=gmem(1), shape=SHAPE, dtype=DType.INT8)
        simulator = Simulator(file_of(numbered([out, spoil])))
        first = simulator.run({"x": values()})["y"]
        assert np.array_equal(first.reshape(-1), np.arange(256, dtype=np.uint8).view(np.int8))
        assert np.array_equal(simulator.run({"x": values()})["y"], values())
        simulator.forget()
        assert np.array_equal(simulator.run({"x": values()})["y"], first)

    def test_intermediate_values_can_be_watched_and_read(self) -> None:
        seen: list[str] = []
        simulator = Simulator(file_of(numbered(small_program.negate())))
        simulator.run({"x": values()}, watch=lambda _, command: seen.append(command.instruction.describe().split()[0]))
        assert seen == ["dma.load", "tensor.mul", "dma.store"]
        assert np.array_equal(simulator.read(gmem(3), SHAPE, np.dtype(np.int8)), values())

    @each(
        ("inputs", "message"),
        [
            ({}, "cvimodel: input 'x' is missing; give all of x"),
            ({"x": values(), "z": values()}, "cvimodel: no input 'z'; the file has x"),
            ({"x": values().astype(np.float32)}, r"cvimodel: input 'x' is int8 of shape \(1, 8, 2, 16\), got float32"),
        ],
    )
    def test_wrong_inputs_are_refused(self, inputs: dict[str, Array], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            Simulator(file_of(numbered(small_program.negate()))).run(inputs)


class TestCpuRoutines:
    def file(self, function: str, **arguments: float | str) -> CviModel:
        x, y = Tensor("x", TensorType.F32, SHAPE, 3), Tensor("y", TensorType.INT8, SHAPE, 4)
        routine = Routine(CpuRoutine(function, write_arguments(arguments)), ("x",), ("y",))
        return CviModel(CV183X, "net", (Program(("x",), ("y",), (x, y), (routine,)),), ())

    def test_quant_rounds_half_away_from_zero_and_saturates(self) -> None:
        x = np.zeros(SHAPE, np.float32)
        x.flat[:6] = [0.25, -0.25, 1.25, -1.25, 300, -300]
        y = Simulator(self.file("quant", **{"from": "FP32", "to": "INT8", "scale": 2.0})).run({"x": x})["y"]
        assert y.flat[:6].tolist() == [1, -1, 3, -3, 127, -128]

    def test_an_unknown_function_is_named_with_the_known_ones(self) -> None:
        model = self.file("yolo")
        with pytest.raises(
            Unsupported,
            match=r"CPU function 'yolo' is not simulated, only .*quant, .*softmax, topk, .*; run this",
        ):
            Simulator(model).run({"x": np.zeros(SHAPE, np.float32)})

    def test_arguments_of_every_kind_come_back(self) -> None:
        arguments = {"a": 1.5, "b": True, "c": -7, "d": "text", "e": (1.0, 2.5), "f": (3, -4)}
        assert read_arguments(write_arguments(arguments)) == arguments


class TestRefusing:
    def test_a_missing_wait_is_a_hazard_even_when_the_value_would_be_right(self) -> None:
        commands = [Command(command.instruction, command.number, 0) for command in numbered(small_program.negate())]
        with pytest.raises(
            HazardError,
            match=r"cvimodel: segment 0: compute command 1 \(tensor.mul\) and DMA command 1 \(dma.load\) may run at "
            r"the same time and both use lmem 0x0..0x20, lanes 0..7: the first waits for no DMA command, the second "
            r"waits for no compute command; let the later one wait for the earlier one",
        ):
            Simulator(file_of(commands)).run({"x": values()})

    def test_waits_that_are_never_reached_are_found_when_loading(self) -> None:
        commands = [Command(command.instruction, command.number, 9) for command in numbered(small_program.negate())]
        with pytest.raises(HazardError, match="segment 0: compute command 1 and DMA command 1 wait for ids that are"):
            Simulator.from_bytes(file_of(commands).to_bytes(), CV183X)

    @each(("at", "name", "value"), [(0, "outstanding_en", 1), (1, "cmd_id_en", 0)])
    def test_fields_that_would_change_the_order_of_commands_are_refused(self, at: int, name: str, value: int) -> None:
        """The proof over waits holds for transfers that do not overlap, and for commands that heed their ids."""
        commands = numbered(small_program.negate())
        instruction = replace(cast("TensorCopy", commands[at].instruction), leftover=((name, value),))
        commands[at] = replace(commands[at], instruction=instruction)
        with pytest.raises(IllegalCommand, match=f"command 1: [a-z.]+: {name} = {value} has no known meaning here"):
            Simulator.from_bytes(file_of(commands).to_bytes(), CV183X).check()

    def test_an_illegal_command_is_named_with_its_place(self) -> None:
        x = Operand(0, DType.INT8)
        wrong = Arithmetic(operation=ArithmeticOp.MAX, shape=SHAPE, result=Operand(0x100, DType.UINT8), left=x, right=x)
        with pytest.raises(
            IllegalCommand,
            match=r"cvimodel: segment 0: compute command 1: tensor\.max: int8 to uint8; use operands and result of one",
        ):
            Simulator(file_of(numbered([wrong]))).check()

    def test_a_transfer_outside_its_memory_is_named(self) -> None:
        load = TensorCopy(source=gmem(5), destination=0, shape=SHAPE, dtype=DType.INT8)
        with pytest.raises(
            IllegalCommand,
            match=r"DMA command 1: tensor 1x8x2x16 at g5\+0x0 ends at byte 0x100 of a memory of 0x",
        ):
            Simulator(file_of(numbered([load]))).run({"x": values()})

    @each(
        ("data", "error", "message"),
        [
            (b"", CorruptFile, "f: cvimodel of 0 bytes: the header alone has 48; the file is truncated"),
            (bytes(48), CorruptFile, "f: cvimodel: starts with .*, not b'CviModel'; this is another kind of file"),
            (read(FILES[0])[:500], CorruptFile, "f: cvimodel of 500 bytes: the header states a body of 824"),
            (read(FILES[0])[:2000], CorruptFile, "f: cvimodel: section .* in an area of 1128; the file is truncated"),
            (
                read(FILES[0]).replace(b"cv183x", b"cv182x"),
                Unsupported,
                "f: cvimodel for chip 'cv182x': only files for cv183x can be read here; recompile it",
            ),
        ],
    )
    def test_damaged_files_say_what_is_wrong(self, data: bytes, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            load_model(data, "f", CV183X)

    @each("seed", range(4))
    def test_flipped_bits_never_give_another_exception(self, seed: int) -> None:
        rng, sample = np.random.default_rng(seed), read(FILES[0])
        inputs = arrays(FILES[0], "in")
        for _ in range(80):
            data = bytearray(sample)
            for _ in range(int(rng.integers(1, 4))):
                place = int(rng.integers(8, 872)) if rng.integers(2) else int(rng.integers(3400, len(data)))
                data[place] ^= 1 << int(rng.integers(8))
            try:
                load_model(bytes(data), "f", CV183X).run(inputs)
                disassemble(bytes(data), CV183X)
            except ALLOWED:
                pass


class TestLz4:
    def test_literals_and_overlapping_matches(self) -> None:
        # "abc", then 9 bytes from 3 back (length 5 + 4), then "xyz".
        block = bytes([0x35]) + b"abc" + bytes([3, 0]) + bytes([0x30]) + b"xyz"
        assert decompress_block(block, 15) == b"abc" * 4 + b"xyz"

    def test_long_literals(self) -> None:
        data = bytes(range(256)) + bytes(44)
        assert decompress_block(bytes([0xF0, 255, 30]) + data, 300) == data

    @each(
        ("block", "size"), [(b"\x10a\x09\x00", 5), (b"\xf0", 3), (b"\x30ab", 3), (b"\x20ab", 3), (b"\x10a\x00\x00", 9)]
    )
    def test_damaged_blocks_are_corrupt(self, block: bytes, size: int) -> None:
        with pytest.raises(CorruptFile, match="LZ4 block of"):
            decompress_block(block, size)
