"""The command line from network to file: same input same bytes, every stage readable, bad input one sentence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc, tpuc_apart
from tests.families import each

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
CALIBRATION = DIGITS / "digits_calib.npz"


def _compile(model: Path, target: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return tpuc("compile", model, "--chip", "bm1684x", "-o", target, *more)


INT8 = ("--quantize", "int8", "--dataset", CALIBRATION)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network in int8, `d.bmodel`, with all its stages."""
    folder = tmp_path_factory.mktemp("stages")
    done = _compile(DIGITS / "digits.onnx", folder / "d.bmodel", *INT8, "--work-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_runs_in_different_folders_write_the_same_bytes(stages: Path, tmp_path: Path) -> None:
    """One of them is a process of its own, with its own order of sets. The record of a run says in which folder."""
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "digits.onnx")
    (tmp_path / "work").mkdir()
    options = ("--chip", "bm1684x", "-o", tmp_path / "work" / "d.bmodel", "--work-dir", tmp_path / "work", *INT8)
    done = tpuc_apart("compile", tmp_path / "digits.onnx", *options)
    assert done.returncode == 0, done.stderr
    first, second = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "d.bmodel.json"}
        for folder in (stages, tmp_path / "work")
    )
    assert first == second
    assert {
        "d.bmodel",
        "digits_origin.mlir",
        "digits.mlir",
        "digits_cali_table",
        "digits_bm1684x_int8_sym_tpu.mlir",
        "digits_bm1684x_int8_sym_final.mlir",
    } <= first.keys()


def test_every_stage_reads_back_and_evaluates(stages: Path) -> None:
    session = Session(chip="bm1684x", quantize="int8")
    inputs = {"image": np.load(DIGITS / "digits_eval.npz")["x"][:1].reshape(1, 1, 8, 8).astype(np.float32)}
    results: dict[str, np.ndarray] = {}
    for stage in ("_origin", "", "_bm1684x_int8_sym_tpu", "_bm1684x_int8_sym_final"):
        module = session.load(stages / f"digits{stage}.mlir")
        module.verify()
        (results[stage],) = Interpreter(module).run(inputs).values()
    assert np.abs(results[""] - results["_origin"]).max() < 1e-5
    assert np.array_equal(results["_bm1684x_int8_sym_tpu"], results["_bm1684x_int8_sym_final"])
    assert np.argmax(results["_bm1684x_int8_sym_tpu"]) == np.argmax(results["_origin"])


def test_the_steps_one_by_one_give_the_file_that_compile_gives(stages: Path, tmp_path: Path) -> None:
    whole = stages / "d.bmodel"
    steps = [
        ("model_transform", "--model_name", "digits", "--model_def", DIGITS / "digits.onnx", "--mlir", "digits.mlir"),
        ("run_calibration", "digits.mlir", "--dataset", CALIBRATION, "-o", "digits_cali_table"),
        (
            *("model_deploy", "--mlir", "digits.mlir", "--quantize", "INT8", "--chip", "bm1684x"),
            *("--calibration_table", "digits_cali_table", "--model", "digits.bmodel"),
        ),
    ]
    for step in steps:
        done = tpuc(*step, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    # The table rounds thresholds to seven decimals, so scales differ in the last bits: same code, same accuracy.
    assert abs((tmp_path / "digits.bmodel").stat().st_size - whole.stat().st_size) <= 4096
    run = tpuc("model_runner", "--input", DIGITS / "digits_eval.npz", "--model", "digits.bmodel", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "200x1x10" in run.stdout


def _damaged(tmp_path: Path, name: str) -> Path:
    """The digits network with one fault."""
    model = onnx.load(DIGITS / "digits.onnx")
    if name == "unknown op":
        model.graph.node[0].op_type = "Frobnicate"
    elif name == "dynamic":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    elif name == "nan":
        weight = model.graph.initializer[0]
        array = numpy_helper.to_array(weight).copy()
        array.flat[0] = np.nan
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    path = tmp_path / f"{name.replace(' ', '_')}.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@each(
    ("fault", "says"),
    [
        ("unknown op", ["Frobnicate"]),
        ("dynamic", ["image", "--dim N=1"]),
        ("nan", ["NaN"]),
    ],
)
def test_a_bad_network_gives_one_sentence(tmp_path: Path, fault: str, says: list[str]) -> None:
    path = _damaged(tmp_path, fault)
    _refused(_compile(path, tmp_path / "out.bmodel", *INT8), 1, [path.name, *says], tmp_path / "out.bmodel")


def _refused(done: subprocess.CompletedProcess[str], status: int, says: list[str], target: Path) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("tpuc: "), done.stderr
    assert "Traceback" not in done.stderr
    for word in says:
        assert word in done.stderr
    assert not target.exists()
    assert [path.name for path in target.parent.glob(f"*{target.name}*")] == []


def test_a_truncated_network_gives_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "short.onnx"
    path.write_bytes((DIGITS / "digits.onnx").read_bytes()[:5000])
    _refused(_compile(path, tmp_path / "out.bmodel"), 1, ["short.onnx"], tmp_path / "out.bmodel")


def test_int8_without_samples_says_what_to_give(tmp_path: Path) -> None:
    done = _compile(DIGITS / "digits.onnx", tmp_path / "out.bmodel", "--quantize", "int8")
    _refused(done, 1, ["int8 needs calibration", "--dataset", "--calibration-table"], tmp_path / "out.bmodel")


def test_a_foreign_table_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "other_table"
    table.write_text("# op_name threshold min max\nsomething 1.0 -1.0 1.0\n")
    done = _compile(DIGITS / "digits.onnx", tmp_path / "out.bmodel", "--quantize", "int8", "--calibration-table", table)
    says = ["other_table", "belongs to another network", "tpuc calibrate"]
    _refused(done, 1, says, tmp_path / "out.bmodel")


def test_a_chip_or_mode_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = tpuc("compile", DIGITS / "digits.onnx", "--chip", "bm1684", "-o", tmp_path / "out.bmodel")
    _refused(done, 2, ["no chip named 'bm1684'", "Did you mean 'bm1684x'?"], tmp_path / "out.bmodel")
    done = _compile(DIGITS / "digits.onnx", tmp_path / "out.bmodel", "--quantize", "int3")
    _refused(done, 2, ["chip 'bm1684x' has no mode 'int3'"], tmp_path / "out.bmodel")


def test_an_unwritable_output_is_refused_before_the_work(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.bmodel"
    done = _compile(DIGITS / "digits.onnx", target)
    assert done.returncode == 1
    assert str(target) in done.stderr
    assert "Traceback" not in done.stderr


@each("size", [0, 40, 3000, 9000])
def test_a_truncated_file_is_refused(stages: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "short.bmodel"
    path.write_bytes((stages / "d.bmodel").read_bytes()[:size])
    for command in (("profile", path), ("disasm", path)):
        done = tpuc(*command)
        assert done.returncode == 1
        assert done.stderr.startswith(f"tpuc: {path}"), done.stderr
        assert "Traceback" not in done.stderr


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" && shift && "$@"; status=$?; ls "$DISK"; exit $status'
    target = disk / "out.bmodel"
    command = [sys.executable, "-m", "tpuc", "compile", str(DIGITS / "digits.onnx"), "--chip", "bm1684x"]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(disk), *command, "-o", str(target)],
        capture_output=True,
        text=True,
        env={"DISK": str(disk), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        check=False,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no private mounts here: {done.stderr.strip()}")
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"tpuc: {target}")
    assert "space" in done.stderr
    assert "Traceback" not in done.stderr
