"""Progress is shown where somebody looks: stages with their numbers, loops in them; nothing is written to a pipe."""

from __future__ import annotations

import io
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tpuc_driver.progress import Display
from tpuc_driver.session import Session
from tpuc_driver.session.configuration import Clock

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
STEPS = (
    *("importing", "optimizing", "calibrating", "lowering", "planning"),
    *("generating code", "verifying", "checking predictions"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def compiled(display: Display, folder: Path) -> None:
    session = Session(chip="bm1684x", quantize="int8", progress=display)
    session.compile(DIGITS / "digits.onnx", folder / "d.bmodel", dataset=DIGITS / "digits_calib.npz", input_num=20)


def test_stages_of_a_compilation_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    compiled(Display(), tmp_path)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    found = dict.fromkeys(re.findall(r"step (\d) of (\d): ([a-z ]+?) ━", text))
    assert list(found) == [(str(number), "8", name) for number, name in enumerate(STEPS, 1)]
    assert "calibrating: statistics" in text


def test_a_pipe_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    compiled(Display(), tmp_path)
    assert pipe.getvalue() == ""


def test_bars_go_when_all_is_done_and_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    display = Display()
    assert list(display("abc", "[red]letters")) == ["a", "b", "c"]
    assert "[red]letters" in terminal.getvalue()

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError), display.step("step 1 of 1: failing"):
        fail()
    with display.step("a step"), display.paused():
        terminal.write("remark")
    assert display._bar is None


def test_stages_that_run_again_keep_the_number() -> None:
    told: list[str] = []

    class Listening(Display):
        def step(self, text: str) -> AbstractContextManager[None]:
            told.append(text)
            return super().step(text)

    clock = Clock(Listening())
    for stage in ("import", "nobody"):
        with clock.timed(stage):
            pass
    clock.expect("lower", "finalize")
    for stage in ("lower", "finalize", "lower", "search"):
        with clock.timed(stage):
            pass
    assert told == [
        *("importing", "nobody", "step 1 of 2: lowering", "step 2 of 2: planning"),
        *("step 2 of 2: lowering", "step 2 of 2: search"),
    ]


class Handle:
    """Stands in for IPython's output whose contents can be replaced."""

    made: ClassVar[list[Handle]] = []

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.made.append(self)

    def display(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.texts.append(data["text/plain"])

    update = display


class ZMQInteractiveShell:
    """Stands in for the shell of a kernel."""

    execution_count = 1


def test_a_notebook_shows_one_line_per_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a warning about ipywidgets and an empty output per stage."""
    shell = ZMQInteractiveShell()
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(DisplayHandle=Handle))
    monkeypatch.setattr(Handle, "made", [])
    monkeypatch.setattr("tpuc_driver.notebook.PAUSE_SECONDS", 0)
    display = Display()
    for _ in range(2):
        with display.step("step 1 of 1: counting"):
            assert list(display("ab", "letters")) == ["a", "b"]
    (cell,) = Handle.made
    assert cell.texts[-1] == ""
    assert "step 1 of 1: counting; letters 1 of 2" in cell.texts
    assert written.getvalue() == ""
    shell.execution_count += 1
    with display.step("step 1 of 1: counting"):
        assert len(Handle.made) == 2
