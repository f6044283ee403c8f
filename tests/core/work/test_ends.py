"""However a command ends, nothing of it stays behind, and Ctrl-C is one line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.families import each

WAIT_SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[3]
LONG = """
import sys, time
from pathlib import Path
from tests.core.work.jobs import Stay
from tpuc_driver.work import open_pool, units_of

if __name__ == "__main__":
    with open_pool(2) as pool:
        list(pool.map(Stay(Path(sys.argv[1])), units_of(64)))
"""


def is_there(process: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def until(condition: object, what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@each("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_parent_leaves_no_workers_and_no_files(how: signal.Signals, tmp_path: Path) -> None:
    marks, temporary, script = tmp_path / "marks", tmp_path / "tmp", tmp_path / "long.py"
    marks.mkdir()
    temporary.mkdir()
    script.write_text(LONG)
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(script), str(marks)], env=environment, stderr=subprocess.DEVNULL)
    try:
        until(lambda: len(list(marks.iterdir())) == 2, "two workers have begun")
        workers = [int(mark.name) for mark in marks.iterdir()]
        assert all(map(is_there, workers))
        parent.send_signal(how)
        parent.wait(WAIT_SECONDS)
        until(lambda: not any(map(is_there, workers)), "the workers have ended")
        assert list(temporary.iterdir()) == []
    finally:
        parent.kill()
        parent.wait()


NETWORK = """#loc1 = loc("x")
module @net attributes {module.chip = "ALL", module.platform = "ONNX", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> tensor<1x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc1)
    %1 = "top.Relu"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("y")
    return %1 : tensor<1x4xf32>
  } loc(unknown)
} loc(unknown)
"""


STARTED = """
import sys
from tpuc_driver.cli import main
print("started", file=sys.stderr, flush=True)
sys.exit(main())
"""


def interrupted(arguments: list[str], folder: Path, seconds: float) -> tuple[int, str]:
    """Exit code and words of a command whose whole process group gets Ctrl-C some time after `main` was called."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, said


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "n.mlir").write_text(NETWORK)
    (tmp_path / "cal").mkdir()
    for index in range(40):
        np.savez(tmp_path / "cal" / f"{index}.npz", x=np.full((1, 4), index, np.float32))
    return tmp_path


def _moments(quick: Sequence[float], others: Sequence[float]) -> list[ParameterSet]:
    return [
        *(pytest.param(seconds, id=str(seconds)) for seconds in quick),
        *(pytest.param(seconds, marks=pytest.mark.slow, id=str(seconds)) for seconds in others),
    ]


def had_ended(code: int, network: Path) -> bool:
    """Ctrl-C came behind the end of a calibration: too late, or while the interpreter let go of what it had."""
    return code in (0, -signal.SIGINT) and (network / "t").exists()


@each("seconds", _moments([0.01, 0.1, 0.3], [0.03, 0.06, 0.15, 0.2, 0.5]))
def test_ctrl_c_while_things_are_imported_is_one_line(seconds: float, network: Path) -> None:
    code, said = interrupted(["calibrate", "n.mlir", "--dataset", "cal", "-o", "t"], network, seconds)
    if not had_ended(code, network):
        assert (code, said.splitlines()[-1]) == (130, "tpuc: interrupted")
        assert [line for line in said.splitlines() if "sample" not in line] == ["tpuc: interrupted"]
        assert not (network / "t").exists()


@pytest.mark.parametrize("seconds", _moments([1.2], [0.9, 1.6]))
def test_ctrl_c_with_workers_is_one_line(seconds: float, network: Path) -> None:
    arguments = ["calibrate", "n.mlir", "--dataset", "cal", "-o", "t", "--workers", "2"]
    code, said = interrupted(arguments, network, seconds)
    if not had_ended(code, network):
        assert code == 130
        assert [line for line in said.splitlines() if "sample" not in line] == ["tpuc: interrupted"]


SWALLOWED = """
import os, signal, sys, time
import tpuc_driver.cli.run as run
from tpuc_driver.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells take from what runs in the background

class Fragile:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def wrapped(*_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    except KeyboardInterrupt as error:
        raise ImportError("numpy failed to import") from error

def torn_down(*_):
    one = Fragile()
    del one
    time.sleep(5)
    raise AssertionError("it went on")

run._dispatch = {"wrapped": wrapped, "torn_down": torn_down}[sys.argv.pop()]
sys.exit(main())
"""


@each("how", ["wrapped", "torn_down"])
def test_ctrl_c_that_somebody_else_catches_is_one_line(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWED, how], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "tpuc: interrupted\n")
