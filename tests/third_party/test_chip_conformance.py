"""Each check of ChipConformance passes on the toy chip and fails on one that breaks what it is about."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from toy_chip import isa, simulator, timing
from toy_chip.assembler import ToyAssembler, operand
from toy_chip.chip import Toy
from toy_chip.container import read_file, write_file
from toy_chip.kernels import ReluKernel
from tpuc.api import BrokenPromise, HazardError, Instruction, Node, Phase, PlacedTile, Region
from tpuc_ops import tpu
from tpuc_testing import integers, quantized, quantized_element
from tpuc_testing.chip_conformance import ChipConformance
from tpuc_testing.kernel_conformance import Sample
from tpuc_testing.packages import offers_of

from tests.families import each
from tests.third_party.distributions import ROOT, TOY_CHIP

BYTES = quantized_element("int8", 0.05)


def relu(rows: int) -> Sample:
    x = quantized(integers(2, 11, rows, 5), 0.05)
    return Sample(tpu.Relu(relu_limit=4.0), [x], BYTES, tilings=[{"n": 1}, {"h": 2}])


GROWING = [replace(relu(rows), tilings=()) for rows in (2, 6)]


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The checks on the toy chip; of a class of its own, which keeps its file."""
    offers = tuple(offers_of(ROOT, TOY_CHIP))
    monkeypatch.setattr("tpuc.registry.registry.installed_offers", lambda: offers)
    stated = {"chip": "toy", "samples": {"relu": relu(6)}, "growing": {"relu": GROWING}}
    return type("TestOne", (ChipConformance,), stated)()


CHECKS = sorted(name for name in vars(ChipConformance) if name.startswith("test_"))


@pytest.mark.parametrize("check", CHECKS)
def test_the_toy_chip_keeps_every_promise(check: str, case: Any) -> None:
    getattr(case, check)()


# What a chip may do wrong


def _wrong_everywhere(self: ReluKernel, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
    asm.record(isa.Clamp(operand(placed.result), operand(placed.operand(0)), 1, 80))


def _wrong_in_later_tiles(self: ReluKernel, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
    low = 1 if placed.result.shape[2] == 2 else 0
    asm.record(isa.Clamp(operand(placed.result), operand(placed.operand(0)), low, 80))


def _reads_nothing(self: isa.OneInput) -> Sequence[Region]:
    return ()


def _outside(self: isa.Load) -> Sequence[Region]:
    return (self.source.region, Region("lmem", 2040, 2056))


def _reads_elsewhere(self: isa.OneInput) -> Sequence[Region]:
    region = self.input.region
    return (region, replace(region, start=region.start + 1000, end=region.end + 1000))


NUMBERS = itertools.count()
WRITE, RUN, ENCODE = Toy.write, simulator.ToyModel.run, isa.ToyInstruction.encode


def _another_name(self: Toy, *arguments: Any) -> bytes:
    content = read_file(WRITE(self, *arguments), "net")
    return write_file(replace(content, name=f"{content.name}{next(NUMBERS)}"))


def _another_value(self: simulator.ToyModel, inputs: Any, check: bool = True) -> Any:
    return {name: array + next(NUMBERS) for name, array in RUN(self, inputs, check).items()}


def _no_wait(self: isa.ToyInstruction, number: int, wait: int) -> bytes:
    return ENCODE(self, number, 0)


def _always(cycles: Any) -> Any:
    return lambda *_: cycles


def _backwards(instruction: Instruction, cycles: Any = timing.cycles) -> int:
    return max(1, 1000 - cycles(instruction))


BROKEN = [
    ("test_timing_models_say_how_well_they_are_known", [(Toy, "profiles", ())], "state a timing model"),
    ("test_timing_models_say_how_well_they_are_known", [(Toy, "profile_notes", {})], "say of each profile"),
    ("test_the_simulator_equals_the_evaluation", [(ReluKernel, "emit", _wrong_everywhere)], "integers differ"),
    (
        "test_every_tiling_gives_the_same_values",
        [(ReluKernel, "emit", _wrong_in_later_tiles)],
        "relu_2: .* integers differ",
    ),
    ("test_nothing_runs_too_early", [(isa.ToyInstruction, "encode", _no_wait)], "nothing orders"),
    (
        "test_nothing_runs_too_early",
        [(kind, name, _reads_nothing) for kind in (isa.OneInput, isa.Load, isa.Store) for name in ("reads", "writes")],
        "no instruction needs a wait",
    ),
    (
        "test_instructions_say_what_they_touch",
        [(isa.OneInput, "reads", _reads_nothing)],
        "nobody reads what `Load .*` writes",
    ),
    (
        "test_instructions_say_what_they_touch",
        [(isa.Load, "reads", _outside)],
        "local memory has 8 lanes of 2048 bytes",
    ),
    ("test_instructions_say_what_they_touch", [(isa.OneInput, "writes", _reads_nothing)], "`writes` is empty"),
    (
        "test_the_simulator_equals_the_evaluation",
        [(isa.OneInput, "reads", _reads_elsewhere)],
        "toy_chip.kernels: kernel of tpu.Relu 'relu': Clamp reads bytes .* which are not all in its tile's buffers",
    ),
    ("test_the_same_input_gives_the_same_bytes", [(Toy, "write", _another_name)], "two compilations .* differ"),
    ("test_the_same_input_gives_the_same_bytes", [(simulator.ToyModel, "run", _another_value)], "two runs differ"),
    ("test_every_instruction_takes_time", [(Toy, "cycles", _always(0))], "0 cycles"),
    ("test_every_instruction_takes_time", [(Toy, "cycles", _always(1.5))], "float cycles are no int"),
    ("test_more_work_never_takes_fewer_cycles", [(simulator, "cycles", _always(1))], "whatever the work is"),
    ("test_more_work_never_takes_fewer_cycles", [(simulator, "cycles", _backwards)], "for more and more work"),
]


def shown(value: Any) -> str:
    """Check and sentence name a case."""
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("check", "patches", "sentence"), BROKEN, ids=shown)
def test_each_check_fails_on_what_it_is_about(
    check: str, patches: list[tuple[Any, str, Any]], sentence: str, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, name, value in patches:
        monkeypatch.setattr(target, name, value)
    with pytest.raises((AssertionError, BrokenPromise, HazardError), match=sentence):
        getattr(case, check)()


def test_every_check_is_seen_to_fail() -> None:
    assert {check for check, _, _ in BROKEN} == set(CHECKS)


@each(
    ("stated", "sentence"),
    [
        ({"chip": "toy"}, "TestBad must state samples, growing"),
        ({"samples": {}}, "TestBad.samples is empty, so nothing would be tested; state at least one"),
        ({"samples": {"relu": replace(relu(2), tilings=())}}, "TestBad.samples: one of them must state `tilings`"),
        ({"growing": {}}, "TestBad.growing: nothing: state at least two samples"),
        ({"growing": {"relu": [relu(2)]}}, "TestBad.growing: relu: state at least two samples"),
    ],
)
def test_a_test_states_what_it_is_about(stated: dict[str, Any], sentence: str) -> None:
    usual = {"chip": "toy", "samples": {"relu": relu(2)}, "growing": {"relu": [relu(2), relu(3)]}}
    with pytest.raises(TypeError, match=sentence):
        type("TestBad", (ChipConformance,), stated if "chip" in stated else {**usual, **stated})
