"""`tpuc compile --bundle`: a folder with the compiled file, its description and programs."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import tpuc as api
from tpuc.files import CannotWrite
from tpuc_driver.session import bundle

from tests.chips.command_line import tpuc
from tests.families import each

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
NAMES = "zero one two three four five six seven eight nine".replace(" ", "\n")
FILES = (
    *("CMakeLists.txt", "Makefile", "aarch64.cmake", "riscv64-musl.cmake"),
    *("network.hpp", "network.json", "network.py", "picture.hpp", "picture.py", "resize.hpp", "run.cpp", "run.py"),
)
"""Beside the compiled file, of a chip that brings programs."""
HEADERS = {"cv180x": "cv18xx", "bm1684x": "bm1684x"}
"""The folder with what the programs use of the vendor's headers."""
SAID = ("--mean", "3", "--scale", "0.125", "--pixel-format", "gray")


def bundled(folder: Path, chip: str, name: str, *more: str | Path) -> CompletedProcess[str]:
    return tpuc("compile", DIGITS, "--chip", chip, "-o", folder / name, "--bundle", folder / "out", *more)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_holds_the_file_and_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text(NAMES, "utf-8")
    done = bundled(tmp_path, "cv180x", "net.cvimodel", "--quantize", "bf16", *SAID, "--labels", tmp_path / "names.txt")
    assert done.returncode == 0, done.stderr
    found = contents(tmp_path / "out")
    assert sorted(found) == sorted(["net.cvimodel", *FILES])
    assert found["net.cvimodel"] == (tmp_path / "net.cvimodel").read_bytes()
    said = json.loads(found["network.json"])
    (image,), (probabilities,) = said["inputs"], said["outputs"]
    assert (said["version"], said["chip"], said["model"]) == (1, "cv180x", "net.cvimodel")
    assert said["labels"] == NAMES.split()
    assert (image["name"], image["shape"], image["type"], image["frame"]) == ("image", [1, 1, 8, 8], "f32", None)
    assert {name: image["preprocess"][name] for name in ("mean", "scale", "pixel_format")} == {
        "mean": [3.0],
        "scale": [0.125],
        "pixel_format": "gray",
    }
    assert (probabilities["shape"], probabilities["scale"], probabilities["zero_point"]) == ([1, 10, 1, 1], 1.0, 0)
    for name in ("run.py", "network.py", "picture.py"):
        compile(found[name], name, "exec")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_full_disk_is_said_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compiled = api.load(DIGITS).compile("cv180x", mode="bf16")

    def full(path: Path, _content: object) -> None:
        error = OSError(errno.ENOSPC, "No space left on device", str(path))
        raise CannotWrite(f"{path}: cannot be written") from error

    monkeypatch.setattr(bundle, "write_atomic", full)
    with pytest.raises(CannotWrite, match=r"^out: cannot be written: No space left on device. Free some space there"):
        compiled.bundle("out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@each("chip", HEADERS)
def test_its_program_compiles_without_warnings(chip: str, tmp_path: Path) -> None:
    suffix, mode = (".bmodel", "f16") if chip == "bm1684x" else (".cvimodel", "bf16")
    for number, more in enumerate(((), SAID, (*SAID, "--fuse-preprocess"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert bundled(folder, chip, f"net{suffix}", "--quantize", mode, *more).returncode == 0
        headers = Path(__file__).parents[1] / "interop" / HEADERS[chip] / "runtime"
        flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", str(headers)]
        subprocess.run(["g++", *flags, "run.cpp"], cwd=folder / "out", check=True)


def test_deploy_writes_the_folder_that_compile_writes(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text(NAMES, "utf-8")
    names = ("--labels", tmp_path / "names.txt")
    assert bundled(tmp_path, "cv180x", "net.cvimodel", "--quantize", "bf16", *SAID, *names).returncode == 0
    module = ("--model-name", "digits", "--model-def", DIGITS, *SAID, "--mlir", tmp_path / "digits.mlir")
    assert tpuc("transform", *module).returncode == 0
    (tmp_path / "apart").mkdir()
    to = ("--model", tmp_path / "apart" / "net.cvimodel", "--bundle", tmp_path / "apart" / "out")
    done = tpuc("deploy", "--mlir", tmp_path / "digits.mlir", "--chip", "cv180x", "--quantize", "bf16", *names, *to)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "apart" / "out") == contents(tmp_path / "out")


def test_it_has_the_same_bytes_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert bundled(tmp_path / name, "cv180x", "net.cvimodel", "--quantize", "bf16").returncode == 0
    assert contents(tmp_path / "one" / "out") == contents(tmp_path / "two" / "out")


def test_a_folder_with_something_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    done = bundled(tmp_path, "cv180x", "net.cvimodel", "--quantize", "bf16")
    assert done.returncode == 2
    assert done.stderr.strip() == f"tpuc: {tmp_path / 'out'}: the folder is not empty; choose a new one for the bundle."
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "out"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert bundled(tmp_path, "cv180x", "net.cvimodel", "--quantize", "bf16").returncode == 0
    assert len(contents(tmp_path / "out")) == len(FILES) + 1


def test_a_failure_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tpuc_driver.session.bundle.write_atomic", full)
    assert bundled(tmp_path, "cv180x", "net.cvimodel", "--quantize", "bf16").returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["net.cvimodel"]


def test_a_chip_without_programs_says_so(tmp_path: Path) -> None:
    done = bundled(tmp_path, "c", "net.tar", "--quantize", "f32")
    assert done.returncode == 0
    assert f"chip 'c' has no example program yet; {tmp_path / 'out'} is written without one." in done.stderr
    assert sorted(contents(tmp_path / "out")) == ["net.tar", "network.json"]


@each(
    "more",
    [("--chip", "bm1684x,cv180x"), ("--input-shapes", "1,1,8,8", "--input-shapes", "2,1,8,8"), ("--batch", "1,2")],
    ids=["chips", "shapes", "batches"],
)
def test_it_is_of_one_network(more: tuple[str, ...], tmp_path: Path) -> None:
    done = bundled(tmp_path, "cv180x", "net.cvimodel", *more)
    assert done.returncode == 2
    assert "--bundle takes one network for one chip; give a single --chip, --input-shapes and --batch." in done.stderr
