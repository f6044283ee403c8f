"""Pipelines of passes as TPU-MLIR writes them: its names, its options, its order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_driver.session.artifacts import read_artifact

from tests.chips.command_line import tpuc
from tests.families import each

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CHIP = "bm1684x"
BEHIND = ("weight-reorder", "subnet-divide", "layer-group", "address-assign")

pytestmark = pytest.mark.chip(CHIP)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits network as TOP module, and its calibration table."""
    folder = tmp_path_factory.mktemp("digits")
    names = ("--model-name", "digits", "--model-def", DIGITS / "digits.onnx", "--mlir", "digits.mlir")
    assert tpuc("transform", *names, cwd=folder).returncode == 0
    samples = ("--dataset", DIGITS / "digits_calib.npz", "--input-num", "20", "--tune-num", "0")
    assert tpuc("calibrate", "digits.mlir", *samples, "-o", "table", cwd=folder).returncode == 0
    return folder


def opt(folder: Path, *passes: str) -> str:
    """Run the passes on the digits network; returns what was said on stderr."""
    given = [word for one in passes for word in ("--pass", one)]
    done = tpuc("opt", "digits.mlir", *given, "-o", "final.mlir", cwd=folder)
    assert (done.returncode, done.stdout) == (0 if not done.stderr.startswith("tpuc: ") else done.returncode, "")
    return done.stderr


@each("mode", ["F32", "F16", "BF16"])
def test_the_printed_order_gives_the_file_that_deploy_gives(mode: str, digits: Path) -> None:
    """Of floats, where `asymmetric` means nothing."""
    lower = f"convert-top-to-tpu{{mode={mode} asymmetric=true chip={CHIP}}}"
    assert opt(digits, lower, *BEHIND, "codegen{model_file=passes.bmodel}") == ""
    deploy = ("deploy", "--mlir", "digits.mlir", "--chip", CHIP, "--quantize", mode, "--model", "deploy.bmodel")
    assert tpuc(*deploy, cwd=digits).returncode == 0
    chip = Session(chip=CHIP).chip
    by_passes, by_deploy = (read_artifact(chip, digits / name)[0] for name in ("passes.bmodel", "deploy.bmodel"))
    assert by_passes == by_deploy


@pytest.mark.parametrize(("asymmetric", "zero"), [("false", True), ("true", False)])
def test_calibration_makes_integers_of_either_kind(asymmetric: str, zero: bool, digits: Path) -> None:
    calibrated = f"import-calibration-table{{file=table asymmetric={asymmetric}}}"
    lower = f"convert-top-to-tpu{{mode=INT8 asymmetric={asymmetric} chip={CHIP}}}"
    assert opt(digits, calibrated, "propagate-calibration", lower, *BEHIND, "codegen{model_file=i.bmodel}") == ""
    text = (digits / "final.mlir").read_text()
    image = next(line for line in text.splitlines() if '"tpu.Cast"' in line)
    assert ("!quant.uniform<i8:f32, " in image or "!quant.uniform<u8:f32, " in image) == zero or ":-128>" in image
    with np.load(DIGITS / "digits_eval.npz") as data:
        np.savez(digits / "x.npz", image=data["x"][:50])
        labels = data["y"][:50]
    (answers,) = Session().run(digits / "i.bmodel", [digits / "x.npz"]).values()
    assert np.mean(answers.reshape(50, 10).argmax(axis=1) == labels) >= 0.9  # 0.98 and more of all in floats


@pytest.mark.chip("cv183x")
def test_two_chips_at_once(digits: Path) -> None:
    given = ("--pass", f"convert-top-to-tpu{{chip={CHIP}}}", "--chip", "cv183x", "--quantize", "bf16")
    done = tpuc("opt", "digits.mlir", *given, cwd=digits)
    assert (done.returncode, done.stderr) == (
        2,
        f"tpuc: pass 'convert-top-to-tpu' is for chip '{CHIP}', but the run is for 'cv183x'; use one chip\n",
    )


@each("name", BEHIND[1:])
def test_without_a_chip(name: str, digits: Path) -> None:
    done = tpuc("opt", "digits.mlir", "--pass", name, cwd=digits)
    assert done.returncode == 2
    assert done.stderr.endswith("needs a chip: add --chip NAME\n")
