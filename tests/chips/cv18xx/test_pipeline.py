"""The command line from network to file on each chip, and what is refused before any work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc
from tests.chips.cv18xx import NAMES
from tests.families import each
from tests.turns import first_few

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
MODES = {"int8": ("--quantize", "int8", "--dataset", DIGITS / "digits_calib.npz"), "bf16": ("--quantize", "bf16")}


@each("mode", MODES)
@each("chip", first_few(NAMES, 1))
def test_the_file_runs_from_the_command_line(chip: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "digits.cvimodel"
    done = tpuc("compile", DIGITS / "digits.onnx", "--chip", chip, "-o", path, *MODES[mode])
    assert done.returncode == 0, done.stderr
    with np.load(DIGITS / "digits_eval.npz") as data:
        images, labels = data["x"].astype(np.float32), data["y"]
    np.savez(tmp_path / "x.npz", image=images.reshape(-1, 1, 1, 8, 8))
    (scores,) = Session().run(path, (tmp_path / "x.npz",)).values()
    assert (scores.reshape(len(labels), -1).argmax(axis=1) == labels).sum() >= 196  # 198 in float
    for command, word in (("disasm", "conv"), ("profile", "cycles")):
        shown = tpuc(command, path)
        assert shown.returncode == 0, shown.stderr
        assert word in shown.stdout


def test_tools_show_the_chip(tmp_path: Path) -> None:
    """`matrix`, and both networks side by side."""
    chip, work = NAMES[0], tmp_path / "work"
    with np.load(DIGITS / "digits_eval.npz") as data:
        np.savez(tmp_path / "x.npz", image=data["x"][:1].reshape(1, 1, 8, 8).astype(np.float32))
    done = tpuc(
        "compile",
        DIGITS / "digits.onnx",
        "--chip",
        chip,
        *MODES["bf16"],
        "--work-dir",
        work,
        "-o",
        tmp_path / "d.cvimodel",
    )
    assert done.returncode == 0, done.stderr
    networks = ("--f32-mlir", work / "digits.mlir", "--quant-mlir", work / f"digits_{chip}_bf16_tpu.mlir")
    shown = tpuc("visual", *networks, "--input", tmp_path / "x.npz", "-o", tmp_path / "page.html")
    assert shown.returncode == 0, shown.stderr
    assert "probabilities" in (tmp_path / "page.html").read_text("utf-8")
    matrix = tpuc("matrix", "--chip", chip)
    assert matrix.returncode == 0, matrix.stderr
    assert re.search(r"^top\.Conv +tpuc \(cv18\) +tpuc \(cv18\)$", matrix.stdout, re.MULTILINE), matrix.stdout[:500]


@each("mode", ["f32", "f16", "int8-asym"])
@each("chip", NAMES)
def test_modes_that_the_chips_lack_are_refused_before_any_work(chip: str, mode: str) -> None:
    done = tpuc("compile", DIGITS / "digits.onnx", "--chip", chip, "--quantize", mode, "-o", "missing.cvimodel")
    assert done.returncode == 2
    assert done.stderr == f"tpuc: chip '{chip}' has no mode '{mode}'. Its modes: int8, bf16.\n"


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits.cvimodel"
    assert tpuc("compile", DIGITS / "digits.onnx", "--chip", NAMES[0], "-o", path, *MODES["bf16"]).returncode == 0
    whole = path.read_bytes()
    for size in (10, 60, 3000):
        path.write_bytes(whole[:size])
        done = tpuc("profile", path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"tpuc: {path}"), done.stderr
