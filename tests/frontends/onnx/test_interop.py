"""The vendor's tools read our TOP modules and compile them to files that compute the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions, Module, PassContext, StringAttr
from tpuc.ir.text import print_module
from tpuc_onnx.frontend import FRONTEND
from tpuc_optimize.canonicalize import Canonicalize

from tests.conftest import RunVendor
from tests.frontends.onnx.networks import registry, run_onnx

pytestmark = pytest.mark.interop

HIGH = {"digits": 17, "mnist": 256, "resnet8": 256}


def vendor(folder: Path, *command: str) -> None:
    """Run one of the vendor's tools in a folder."""
    bin_dir = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [bin_dir / command[0], *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def write(module: Module, folder: Path) -> None:
    """`x.mlir` and its weights, as `transform` writes them."""
    weight_file = module.attributes["module.weight_file"]
    assert isinstance(weight_file, StringAttr)
    (folder / "x.mlir").write_text(print_module(module), encoding="utf-8")
    module.weights.save(folder / weight_file.value)


@pytest.mark.parametrize("name", ["digits", "mnist", "resnet8"])
def test_vendor_compiles_our_top_module(
    name: str, oracle_dir: Path, run_vendor: RunVendor, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(f"{name}_onnx")
    module = FRONTEND.read(path, ImportOptions(), registry())
    write(module, tmp_path)
    vendor(tmp_path, "tpuc-opt", "x.mlir", "--shape-infer", "--canonicalize", "-o", "theirs.mlir")
    Canonicalize().run(module, PassContext(registry()))
    write(module, tmp_path)
    vendor(tmp_path, "tpuc-opt", "x.mlir")
    deploy = ["model_deploy", "--mlir", "x.mlir", "--quantize", "F32", "--chip", "bm1684x", "--model", "x.bmodel"]
    vendor(tmp_path, *deploy)
    (argument,) = module.main.inputs
    image = np.random.default_rng(0).integers(0, HIGH[name], argument.tensor.dims).astype(np.float32)
    (expected,) = run_onnx(path, {argument.name: image}).values()
    (result,) = run_vendor(tmp_path / "x.bmodel", {argument.name: image}).values()
    assert np.abs(result.reshape(expected.shape) - expected).max() <= 1e-4 * np.ptp(expected)
