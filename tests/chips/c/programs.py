"""Networks compiled to folders of C, and the programs built from them."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tpuc.registry import Registry
from tpuc_c.chip import DESCRIPTION
from tpuc_c.confinement import compiler
from tpuc_driver.cli import main
from tpuc_driver.session import Session

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits"
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
FLOAT = ("--quantize", "f32")

needs_compiler = pytest.mark.skipif(compiler() is None, reason="needs a C compiler (gcc or cc)")
needs_lowerings = pytest.mark.skipif(
    not all(Registry().has("tpuc.chips", name) for name in DESCRIPTION.lowering_families),
    reason="needs the chip whose lowerings this one takes",
)


@functools.cache
def quantized() -> tuple[str, ...]:
    """Options that compile the digits to int8, by a table that is made once."""
    folder = Path(tempfile.mkdtemp(prefix="tpuc-tests-c-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session = Session()
    module = session.transform(DIGITS / "digits.onnx")
    options = {"tune_num": 0, "bias_num": 0}
    samples = DIGITS / "digits_calib.npz"
    session.calibrate(module, dataset=samples, method="max", input_num=16, options=options).write(folder / "table")
    return ("--quantize", "int8", "--calibration-table", str(folder / "table"))


def compile_digits(folder: Path, *options: str, mode: Sequence[str] | None = None) -> None:
    """The digits network as a folder of C, in int8 if nothing else is said."""
    arguments = [str(DIGITS / "digits.onnx"), "--chip", "c", "-o", str(folder), *(mode or quantized()), *options]
    assert main(["compile", *arguments]) == 0


def build(folder: Path, sources: Sequence[str], *flags: str, name: str = "gcc") -> Path:
    """A program of sources in a folder."""
    target = folder / f"program_{name}"
    found = shutil.which(name) or shutil.which("cc")
    assert found is not None
    command = [found, *FLAGS, *flags, "-o", str(target), *sources, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return target


def run(program: Path, data: bytes = b"") -> bytes:
    """What a program writes; anything on its standard error, as sanitizers write, is a failure."""
    done = subprocess.run([program], input=data, capture_output=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def macros(folder: Path) -> dict[str, int]:
    """The sizes of pools that the headers state."""
    texts = "".join(path.read_text() for path in sorted(folder.glob("*_metadata.h")))
    return {name: int(value) for name, value in re.findall(r"#define (TVM_\w+_BUFFER_SIZE) (\d+)", texts)}
