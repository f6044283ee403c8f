"""Files that read memory which nothing has written are found, and the command is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Command, DecodedStreams, Engine, IllegalCommand, Region, UsageError
from tpuc_chip_parts.unwritten import Written
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc
from tests.core.test_hazards import Compute, Dma, Touch
from tests.families import each
from tests.models.networks import Network

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


@dataclass(frozen=True)
class _Case:
    """Commands in order, and the sentence of the first one that is wrong."""

    commands: Sequence[Touch]
    sentence: str = ""


def _lmem(start: int, end: int, lanes: tuple[int, int] = (0, 2)) -> tuple[Region, ...]:
    return (Region("lmem", start, end, *lanes),)


def _ddr(start: int, end: int) -> tuple[Region, ...]:
    return (Region("ddr", start, end),)


CASES = {
    "a result that was computed": _Case([Dma(_ddr(0, 8), _lmem(0, 8)), Compute(_lmem(0, 8), _lmem(8, 16))]),
    "a byte too many": _Case(
        [Dma(_ddr(0, 8), _lmem(0, 8)), Compute(_lmem(0, 9), _lmem(16, 24))],
        "net: compute command 2 (touch) reads lmem 0x0..0x9, lanes 0..1, but nothing has written all of that; write it "
        "before",
    ),
    "another lane": _Case(
        [Dma(_ddr(0, 8), _lmem(0, 8, (0, 1))), Compute(_lmem(0, 8), _lmem(16, 24))],
        "net: compute command 2 (touch) reads lmem 0x0..0x8, lanes 0..1, but nothing has written all of that; write it "
        "before",
    ),
    "activations that nothing stored": _Case(
        [Dma(_ddr(0x20000, 0x20008), _lmem(0, 8))],
        "net: DMA command 1 (touch) reads ddr 0x20000..0x20008, but nothing has written all of that; write it before",
    ),
    "activations across two pages": _Case(
        [Dma(_ddr(0, 8), _lmem(0, 8)), Dma(_lmem(0, 8), _ddr(0xFFFC, 0x10004)), Dma(_ddr(0xFFFC, 0x10004), _lmem(0, 8))]
    ),
    "an unwritten byte copied onto itself, which nobody uses": _Case([Compute(_lmem(4, 5), _lmem(4, 5))]),
    "and somebody does": _Case(
        [Compute(_lmem(4, 5), _lmem(4, 5)), Dma(_lmem(4, 5), _ddr(0x20000, 0x20001))],
        "net: DMA command 2 (touch) reads lmem 0x4..0x5, lanes 0..1, but nothing has written all of that; write it "
        "before",
    ),
}


@each("name", CASES)
def test_reads_of_what_nothing_wrote_are_named(name: str) -> None:
    case = CASES[name]
    commands = [Command(one, number, 0) for number, one in enumerate(case.commands, 1)]
    part = DecodedStreams((), (), commands)
    written = Written(2, 64, ("ddr",), _ddr(0, 8))
    if not case.sentence:
        written.run(part, "net")
        return
    with pytest.raises(IllegalCommand) as caught:
        written.run(part, "net")
    assert str(caught.value) == case.sentence


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "bm1688")])
def test_our_files_read_what_they_wrote_and_nothing_else(chip: str, network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip=chip, quantize="int8")
    loaded = session.chip.load(session.build(net.module, net.table).data)
    loaded.check_memory()
    runner = loaded._runner
    (part,) = runner.parts
    loads = [place for place, one in enumerate(part.order) if one.engine is Engine.DMA]
    runner.steps = (replace(part, order=[one for place, one in enumerate(part.order) if place != loads[0]]),)
    with pytest.raises(
        IllegalCommand, match=r"^.*: (compute|DMA) command \d+ \(.*\) reads lmem .* nothing has written"
    ):
        loaded.check_memory()


@pytest.mark.chip("cv183x")
def test_chips_that_make_zeros_of_unwritten_bytes_are_not_checked(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="cv183x", quantize="int8")
    loaded = session.chip.load(session.build(net.module, net.table).data, "net")
    with pytest.raises(UsageError) as caught:
        loaded.check_memory()
    assert str(caught.value) == "net: its chip does not state what holds data before a run; leave out --check-memory."


@pytest.mark.chip("bm1688")
def test_run_refuses_such_files_and_what_has_no_commands(tmp_path: Path) -> None:
    session = Session(chip="bm1688", quantize="f16")
    session.deploy(session.transform(DIGITS), tmp_path / "m.bmodel")
    np.savez(tmp_path / "x.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    done = tpuc("run", tmp_path / "m.bmodel", tmp_path / "x.npz", "--check-memory")
    assert done.returncode == 0, done.stderr
    done = tpuc("run", DIGITS, tmp_path / "x.npz", "--check-memory")
    assert done.returncode == 2
    assert done.stderr.endswith("digits.onnx: only compiled files have memory to check; leave out --check-memory.\n")
