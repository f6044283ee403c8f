"""The program of the page on the Milk-V Duo, built for this machine, on the vendor's runtime."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.chips.cv18xx.test_frames import BYTES, Case
from tests.docs.test_milk_v_duo import ROOT, run_page

pytestmark = pytest.mark.interop
SOURCE = ROOT / "examples" / "milk_v_duo" / "run.cpp"
NUMBER = re.compile(r"-?\d[\d.]*(?:e[-+]\d+)?")


@pytest.fixture(scope="module")
def program(oracle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`oracle_dir` says that the vendor's environment is there."""
    environment = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
    (library,) = environment.glob("lib/python3.*/site-packages/tpu_mlir/lib")
    target = tmp_path_factory.mktemp("program") / "run"
    link = ["-L", str(library), "-lcviruntime", f"-Wl,-rpath,{library}", "-Wl,--allow-shlib-undefined"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    headers = ["-I", str(Path(__file__).parent / "runtime")]
    subprocess.run(["g++", "-std=c++17", *warnings, *headers, str(SOURCE), *link, "-o", str(target)], check=True)
    return target


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def numbers(text: str) -> list[float]:
    """The lines that are one."""
    return [float(line) for line in text.splitlines() if NUMBER.fullmatch(line)]


def test_it_prints_what_the_simulator_gives(program: Path, tmp_path: Path) -> None:
    run_page(tmp_path)
    done = run(tmp_path, program, "digits.cvimodel", "image.bin")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "expected.npz") as expected:
        # The softmax at its end is the runtime's, on the processor: it adds in another order.
        assert_allclose(numbers(done.stdout), expected["probabilities"].reshape(-1), rtol=1e-6)


@pytest.mark.parametrize(("chip", "form"), BYTES)
def test_the_runtime_takes_frames_of_a_camera(chip: str, form: str, program: Path, tmp_path: Path) -> None:
    case = Case.of(chip, form, tmp_path)
    (tmp_path / "net.cvimodel").write_bytes(case.data)
    (tmp_path / "frames.bin").write_bytes(case.frames.tobytes())
    done = run(tmp_path, program, "net.cvimodel", "frames.bin")
    assert done.returncode == 0, done.stderr
    assert_array_equal(np.array(numbers(done.stdout), np.float32), case.wanted.reshape(-1))


def test_it_says_what_is_missing(program: Path, tmp_path: Path) -> None:
    run_page(tmp_path)
    (tmp_path / "image.bin").write_bytes(bytes(255))
    done = run(tmp_path, program, "digits.cvimodel", "image.bin")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "image.bin ends before input image, which takes 256 bytes",
    )
    assert run(tmp_path, program).returncode == 2
