"""Whole files: reading, writing, disassembly, execution, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
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
    Instruction,
    Unsupported,
    UsageError,
    derive_waits,
)
from tpuc_bm1684x import isa
from tpuc_bm1684x.container import BModel, Coefficients, CommandGroup, Location, Net, Stage, SubNet, Tensor, TensorType
from tpuc_bm1684x.disassembler import disassemble
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, TensorCopy
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.isa.stream import encode_stream
from tpuc_bm1684x.simulator import Simulator

from tests.families import each
from tests.turns import first_few

FOLDER = Path(__file__).parent / "goldens"
SAMPLE = (FOLDER / "handmade_conv_int8.bmodel").read_bytes()
CONTEXT = DDR_BASE + 4096
SHAPE = (1, 8, 2, 16)


def sample_arrays() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int8]]]:
    with np.load(FOLDER / "handmade_conv_int8.npz") as arrays:
        return dict(arrays)


def program(commands: Sequence[Command], *, groups: int = 1) -> BModel:
    """X int8 at the start of the context, y right after it, one page of weights."""
    streams = {engine: encode_stream(commands, engine) for engine in Engine}
    counts = {engine: sum(command.engine is engine for command in commands) + 1 for engine in Engine}
    group = CommandGroup(streams[Engine.COMPUTE], streams[Engine.DMA], counts[Engine.COMPUTE], counts[Engine.DMA])
    inputs = (Tensor("x", TensorType.INT8, SHAPE, CONTEXT),)
    outputs = (Tensor("y", TensorType.INT8, SHAPE, CONTEXT + 4096),)
    subnet = SubNet((group,) * groups, inputs, outputs)
    weights = Coefficients(bytes(range(256)) * 16, locations=(Location("w", 0, 4096),))
    return BModel((Net("net", (Stage(inputs, outputs, CONTEXT, 8192, (subnet,), weights),)),))


def add_one() -> list[Instruction]:
    x, y = Operand(0, DType.INT8), Operand(0x100, DType.INT8)
    return [
        TensorCopy(source=CONTEXT, destination=isa.lmem(0), shape=SHAPE, dtype=DType.INT8),
        Arithmetic(operation=ArithmeticOp.ADD, shape=SHAPE, result=y, left=x, right=Scalar.of(1, DType.INT8)),
        TensorCopy(source=isa.lmem(0x100), destination=CONTEXT + 4096, shape=SHAPE, dtype=DType.INT8),
    ]


def values() -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)


class TestSample:
    def test_it_gives_the_expected_output_every_time(self) -> None:
        arrays = sample_arrays()
        simulator = Simulator.from_bytes(SAMPLE)
        for _ in range(2):
            assert np.array_equal(simulator.run({"x": arrays["x"]})["y"], arrays["y"])

    def test_it_survives_reading_and_writing(self) -> None:
        model = BModel.from_bytes(SAMPLE)
        again = model.to_bytes()
        assert BModel.from_bytes(again) == model
        assert model.to_bytes() == again
        arrays = sample_arrays()
        assert np.array_equal(Simulator.from_bytes(again).run({"x": arrays["x"]})["y"], arrays["y"])

    def test_the_disassembly_shows_every_command(self) -> None:
        text = disassemble(SAMPLE)
        assert "  input x int8 1x16x12x14 at 0x100015000\n" in text
        assert (
            "    tiu     1 wait 2     conv.normal result=[0x20000]:int32 result_shape=1x80x12x14 input=[0x0]:int8 "
            "input_shape=16x12x14 weight=[0x10000]:int8 compact kernel=3x3 pads=1x1x1x1\n"
        ) in text
        assert text.count("\n    tiu ") == text.count("\n    gdma ") == 4

    def test_intermediate_values_can_be_watched_and_read(self) -> None:
        arrays, seen = sample_arrays(), list[tuple[int, str]]()
        simulator = Simulator.from_bytes(SAMPLE)
        simulator.run(
            {"x": arrays["x"]}, watch=lambda group, command: seen.append((group, command.instruction.describe()))
        )
        assert [text.split()[0] for _, text in seen] == [
            "dma.copy",
            "dma.copy",
            "conv.normal",
            "ar.add_saturate",
            "quant.requantize",
            "dma.copy",
        ]
        assert np.array_equal(simulator.read(0x1_0001_9000, (1, 80, 12, 14), np.dtype(np.int8)), arrays["y"])


class TestRunning:
    def test_a_small_program_wraps_around(self) -> None:
        result = Simulator(program(derive_waits(add_one()))).run({"x": values()})["y"]
        assert np.array_equal(result, values() + np.int8(1))

    def test_groups_run_one_after_another(self) -> None:
        model = program(derive_waits(add_one()), groups=2)
        assert np.array_equal(Simulator(model).run({"x": values()})["y"], values() + np.int8(1))

    def test_overwritten_weights_come_back_for_the_next_run(self) -> None:
        move = TensorCopy(source=DDR_BASE, destination=CONTEXT + 4096, shape=SHAPE, dtype=DType.INT8)
        spoil = isa.Fill(destination=DDR_BASE, shape=SHAPE, dtype=DType.INT8, value=9)
        simulator = Simulator(program(derive_waits([move, spoil])))
        first = simulator.run({"x": values()})["y"]
        assert np.array_equal(first.reshape(-1), np.arange(256, dtype=np.uint8).view(np.int8))
        assert np.array_equal(simulator.run({"x": values()})["y"], first)

    def test_inputs_and_outputs_may_have_a_region_of_their_own(self) -> None:
        """Address mode 1: x and y lie before the context, which holds nothing here, and are no weights."""
        net = program(derive_waits(add_one())).nets[0]
        stage = replace(net.stages[0], io_address=CONTEXT, io_bytes=8192, context_address=CONTEXT + 8192)
        model = BModel.from_bytes(BModel((replace(net, stages=(stage,), address_mode=1),)).to_bytes())
        assert (model.nets[0].stages[0].io_address, model.nets[0].stages[0].io_bytes) == (CONTEXT, 8192)
        simulator = Simulator(model)
        for _ in range(2):
            assert np.array_equal(simulator.run({"x": values()})["y"], values() + np.int8(1))
        assert "  inputs and outputs 0x100001000, 8192 bytes\n" in disassemble(model.to_bytes())

    @each(
        ("inputs", "message"),
        [
            ({}, "bmodel: input 'x' is missing; give all of x"),
            ({"x": values(), "z": values()}, "bmodel: no input 'z'; the file has x"),
            (
                {"x": values().astype(np.float32)},
                r"bmodel: input 'x' is int8 of shape \(1, 8, 2, 16\), got float32 of shape \(1, 8, 2, 16\); convert it",
            ),
        ],
    )
    def test_wrong_inputs_are_refused(
        self, inputs: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int8]]], message: str
    ) -> None:
        with pytest.raises(UsageError, match=message):
            Simulator(program(derive_waits(add_one()))).run(inputs)


class TestRefusing:
    def test_a_missing_wait_is_a_hazard_even_when_the_value_would_be_right(self) -> None:
        commands = [Command(command.instruction, command.number, 0) for command in derive_waits(add_one())]
        with pytest.raises(
            HazardError,
            match=r"bmodel: group 0: compute command 1 \(ar.add\) and DMA command 1 \(dma.copy\) may run at the same "
            r"time and both use lmem 0x0..0x20, lanes 0..7: the first waits for no DMA command, the second waits for "
            r"no compute command; let the later one wait for the earlier one",
        ):
            Simulator(program(commands)).run({"x": values()})

    def test_a_wait_without_its_enable_bit_is_none(self) -> None:
        """The vendor's runtime gave wrong results in 4 of 4 runs of a file whose store had its `cmd_id_en` cleared."""
        load, add, store = derive_waits(add_one())
        instruction = replace(cast("TensorCopy", store.instruction), leftover=(("cmd_id_en", 0),))
        simulator = Simulator.from_bytes(program([load, add, replace(store, instruction=instruction)]).to_bytes())
        assert [command.wait for command in simulator.parts[0].dma] == [0, 0]
        with pytest.raises(
            HazardError, match=r"compute command 1 \(ar.add\) and DMA command 2 \(dma.copy\) may run at "
        ):
            simulator.check()

    def test_waits_that_are_never_reached_are_found_when_loading(self) -> None:
        commands = [Command(command.instruction, command.number, 9) for command in derive_waits(add_one())]
        with pytest.raises(
            HazardError, match="group 0: compute command 1 and DMA command 1 wait for ids that are never"
        ):
            Simulator.from_bytes(program(commands).to_bytes())

    def test_an_illegal_command_is_named_with_its_place(self) -> None:
        x = Operand(0, DType.INT8)
        wrong = Arithmetic(operation=ArithmeticOp.MAX, shape=SHAPE, result=Operand(0x100, DType.INT16), left=x, right=x)
        with pytest.raises(
            IllegalCommand,
            match=r"bmodel: group 0: compute command 1: ar\.max: int8 to int16; use operand and result of one type",
        ):
            Simulator(program(derive_waits([wrong]))).check()

    def test_other_address_modes_are_unsupported(self) -> None:
        model = program(derive_waits(add_one()))
        with pytest.raises(
            Unsupported,
            match=r"bmodel: address mode 4: the simulator supports the basic mode and separate inputs and outputs "
            r"\(0, 1\); recompile it",
        ):
            Simulator(BModel((replace(model.nets[0], address_mode=4),)))

    def test_another_chip_is_unsupported(self) -> None:
        model = BModel((), chip="BM1688")
        with pytest.raises(
            Unsupported, match="bmodel for chip 'BM1688': only files for BM1684X can be read here; recompile it"
        ):
            BModel.from_bytes(model.to_bytes())

    @each(
        ("data", "message"),
        [
            (b"", "bmodel of 0 bytes: the header alone has 64; the file is truncated"),
            (bytes(64), "bmodel: starts with 0x00000000, not 0xff55aaee; this is another kind of file"),
            (SAMPLE[:5000], "bmodel of 5000 bytes: the header states 98304; the file is truncated"),
        ],
    )
    def test_damaged_files_say_what_is_wrong(self, data: bytes, message: str) -> None:
        with pytest.raises(CorruptFile, match=message):
            BModel.from_bytes(data)


ALLOWED = (CorruptFile, IllegalCommand, HazardError, Unsupported)


class TestFuzz:
    @each("length", [*range(0, 4096, 97), 8300, 50_000, 98_303])
    def test_truncated_files_are_corrupt(self, length: int) -> None:
        with pytest.raises(CorruptFile):
            Simulator.from_bytes(SAMPLE[:length])

    @each("seed", first_few(range(6), 1))
    def test_flipped_bits_never_give_another_exception(self, seed: int) -> None:
        rng, x = np.random.default_rng(seed), sample_arrays()["x"]
        for _ in range(60):
            data = bytearray(SAMPLE)
            area = rng.choice([64, 4096, 8192])  # FlatBuffers, compute code, DMA code
            for _ in range(int(rng.integers(1, 4))):
                data[int(area) + int(rng.integers(0, 1200 if area == 64 else 300))] ^= 1 << int(rng.integers(8))
            try:
                Simulator.from_bytes(bytes(data)).run({"x": x})
                disassemble(bytes(data))
            except ALLOWED:
                pass
            except UsageError:  # the flip renamed an input, which the caller then does not give
                pass
