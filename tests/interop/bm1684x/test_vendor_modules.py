"""Modules cross over in both directions: the vendor's TOP text compiles here, ours compiles there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from tpuc_driver.session import Session

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
Arrays = Mapping[str, NDArray[Any]]


def _vendor(tool: str, *arguments: str | Path, cwd: Path) -> None:
    command = [str(PEER / "bin" / tool), *map(str, arguments)]
    path = f"{PEER / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def _reference(path: Path) -> tuple[Arrays, list[NDArray[Any]]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    engine = onnxruntime.InferenceSession(str(path), options)
    (spec,) = engine.get_inputs()
    inputs = {spec.name: np.random.default_rng(1).uniform(-1, 1, spec.shape).astype(np.float32)}
    return inputs, engine.run(None, inputs)


@pytest.mark.parametrize("name", ["resnet8", "blazeface"])
def test_the_vendors_module_compiles_here_with_the_same_results(
    name: str, oracle_dir: Path, model_data: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source: Path = (
        request.getfixturevalue("resnet8_onnx") if name == "resnet8" else model_data / "onnx" / f"{name}.onnx"
    )
    shutil.copy(source, tmp_path / f"{name}.onnx")
    arguments = ("--model_name", name, "--model_def", f"{name}.onnx", "--mlir", f"{name}.mlir")
    _vendor("model_transform", *arguments, cwd=tmp_path)
    session = Session(chip="bm1684x", quantize="f32")
    data = session.build(session.load(tmp_path / f"{name}.mlir")).data
    inputs, wanted = _reference(source)
    got = session.chip.load(data).run(inputs)
    assert len(got) == len(wanted)
    for array, reference in zip(got.values(), wanted, strict=True):
        assert np.abs(array.reshape(reference.shape) - reference).max() <= 1e-4 * np.ptp(reference)
