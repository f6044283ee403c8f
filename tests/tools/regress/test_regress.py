"""`tpuc regress`: described networks go through their commands, and what fails is told and counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tpuc_regress.description import read
from tpuc_regress.running import run

from tests.chips.command_line import tpuc
from tests.families import each

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"
GOOD = """
files = ["nets/digits.onnx"]
steps = ["transform --model-name d --model-def nets/digits.onnx --mlir d.mlir", "npz dump d_weight.npz"]
"""
BAD = """
files = ["nets/digits.onnx"]
steps = [
  "transform --model-name d --model-def nets/digits.onnx --mlir d.mlir",
  "opt d.mlir --pass {pass} -o {pass}.mlir",
  "opt {pass}.mlir --pass count-flops -o again_{pass}.mlir",
  "opt d.mlir --pass canonicalize -o last.mlir",
]
[each]
pass = ["no-such-pass", "strip-casts"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network that goes through, one with a step that fails, and settings, which are no description."""
    (tmp_path / "nets").mkdir()
    shutil.copy(DIGITS, tmp_path / "nets" / "digits.onnx")
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "bad.toml").write_text(BAD)
    (tmp_path / "tpuc.toml").write_text("")
    return tmp_path


def test_one_network_by_name(folder: Path) -> None:
    done = tpuc("regress", ".", "good", "--work-dir", "work", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "good: ok: transform --model-name d --model-def nets/digits.onnx --mlir d.mlir",
        "good: ok: npz dump d_weight.npz",
        "1 networks, 0 failed",
    ]
    assert (folder / "work" / "good" / "d.mlir").is_file()
    assert sorted(path.name for path in folder.iterdir()) == ["bad.toml", "good.toml", "nets", "tpuc.toml", "work"]


def test_what_fails_ends_its_own_combination(folder: Path) -> None:
    done = tpuc("regress", folder, "--json")
    outcomes = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(one["network"], one["command"].split()[-1], one["exit_code"]) for one in outcomes] == [
        ("bad", "d.mlir", 0),
        ("bad", "no-such-pass.mlir", 2),
        ("bad", "strip-casts.mlir", 0),
        ("bad", "again_strip-casts.mlir", 0),
        ("good", "d.mlir", 0),
        ("good", "d_weight.npz", 0),
    ]
    assert outcomes[1]["said"].startswith("tpuc: no pass named 'no-such-pass'.")


def test_failures_are_counted_by_network(folder: Path) -> None:
    shutil.rmtree(folder / "nets")
    (folder / "nets").mkdir()
    (folder / "nets" / "digits.onnx").write_text("no network")
    done = tpuc("regress", ".", cwd=folder)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines), lines[-1]) == (1, 5, "2 networks, 2 failed")
    assert lines[0].startswith("bad: FAILED (1): transform ")
    assert lines[1].startswith("    tpuc: nets/digits.onnx: not an ONNX file")


def test_a_file_below_the_folder_keeps_its_place(folder: Path, tmp_path: Path) -> None:
    outcomes = list(run(read(folder / "good.toml"), tmp_path / "again", ()))
    assert [one.passed for one in outcomes] == [True, True]
    assert (tmp_path / "again" / "nets" / "digits.onnx").read_bytes() == DIGITS.read_bytes()


@each(
    ("text", "sentence"),
    [
        ("steps = [", "x.toml: is not TOML: "),
        ("step = []", "x.toml: unknown key 'step'; the keys are files, steps, each. Correct the name."),
        ("steps = []", 'x.toml: has no steps. Write steps = ["transform ...", "deploy ..."].'),
        ("steps = 'run'", 'x.toml: \'steps\' is not a list of texts. Write it as ["...", "..."].'),
        ("each = 1\nsteps = ['run']", "x.toml: 'each' is not a table of lists. Write [each] above them."),
        ("steps = ['run {chip}']", "x.toml: step 'run {chip}' uses {chip}, which 'each' does not define. Double "),
        ("steps = ['run {']", "x.toml: step 'run {' cannot be read: "),
        ("steps = ['']", "x.toml: a step is empty. Leave it out."),
        ("files = ['no']\nsteps = ['run']", "x.toml: no does not exist. Add it, or correct 'files'."),
    ],
)
def test_descriptions_that_say_something_else(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text)
    done = tpuc("regress", ".", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tpuc: {sentence}")
    assert done.stderr.count("\n") == 1


def test_folders_without_networks(folder: Path) -> None:
    done = tpuc("regress", "nets", cwd=folder)
    sentence = "tpuc: nets: contains no .toml files. Give the folder of the descriptions.\n"
    assert (done.returncode, done.stderr) == (2, sentence)
    done = tpuc("regress", ".", "yolov5s", cwd=folder)
    sentence = "tpuc: .: no description of network 'yolov5s'. Choose one of bad, good.\n"
    assert (done.returncode, done.stderr) == (2, sentence)
    done = tpuc("regress", "none", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "tpuc: none: no such file or directory. Check the path.\n")
