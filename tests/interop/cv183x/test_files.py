"""Files on the vendor's runtime: its own ones with new inputs, and CPU routines in files of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_cv18.container import CpuRoutine, CviModel, Program, Routine, Tensor, TensorType, write_arguments
from tpuc_cv18.simulator import Simulator
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.draw import Array
from tests.chips.cv183x.test_files import FILES, FOLDER
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop
SHAPE = (2, 5, 3, 4)


@pytest.mark.parametrize("name", FILES)
def test_vendor_files_give_the_same_outputs_here_and_there(name: str, run_vendor: RunVendor) -> None:
    path = FOLDER / f"{name}.cvimodel"
    simulator = Simulator.from_bytes(path.read_bytes(), CV183X)
    rng = np.random.default_rng(7)
    inputs: dict[str, Array] = {}
    for tensor in simulator.inputs:
        values = rng.standard_normal(tensor.shape) * 40
        inputs[tensor.name] = values.astype(tensor.type.numpy)
    wanted = run_vendor(path, inputs)
    for key, result in simulator.run(inputs).items():
        assert np.array_equal(result.reshape(-1), wanted[key].reshape(-1)), key


def test_a_file_read_and_written_again_runs_the_same_there(run_vendor: RunVendor, tmp_path: Path) -> None:
    path = FOLDER / "net20_cv183x_int8.cvimodel"
    ours = tmp_path / "again.cvimodel"
    ours.write_bytes(CviModel.from_bytes(path.read_bytes(), CV183X).to_bytes())
    x = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
    name = "y_Softmax_f32"
    assert np.array_equal(run_vendor(ours, {"x": x})[name], run_vendor(path, {"x": x})[name])


def cpu_file(function: str, arguments: dict[str, float | str], source: TensorType, target: TensorType) -> CviModel:
    x, y = Tensor("x", source, SHAPE, 3), Tensor("y", target, SHAPE, 4)
    routine = Routine(CpuRoutine(function, write_arguments(arguments)), ("x",), ("y",))
    return CviModel(CV183X, "net", (Program(("x",), ("y",), (x, y), (routine,)),), ())


@pytest.mark.parametrize(
    ("arguments", "source", "target"),
    [
        ({"from": "FP32", "to": "INT8", "scale": 0.37}, TensorType.F32, TensorType.INT8),
        ({"from": "NONE", "to": "INT8", "threshold": 5.0}, TensorType.F32, TensorType.INT8),
        ({"from": "INT8", "to": "NONE", "scale": 0.37}, TensorType.INT8, TensorType.F32),
    ],
)
def test_quant_is_exact(
    arguments: dict[str, float | str], source: TensorType, target: TensorType, run_vendor: RunVendor, tmp_path: Path
) -> None:
    data = cpu_file("quant", arguments, source, target).to_bytes()
    path = tmp_path / "quant.cvimodel"
    path.write_bytes(data)
    x = (np.random.default_rng(0).integers(-256, 256, SHAPE) / 2).astype(source.numpy)
    result = Simulator.from_bytes(data, CV183X).run({"x": x})["y"]
    assert np.array_equal(result.reshape(-1), run_vendor(path, {"x": x})["y"].reshape(-1))


def test_softmax_is_exact_to_float_rounding(run_vendor: RunVendor, tmp_path: Path) -> None:
    data = cpu_file("softmax", {"axis": 1}, TensorType.F32, TensorType.F32).to_bytes()
    path = tmp_path / "softmax.cvimodel"
    path.write_bytes(data)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    result = Simulator.from_bytes(data, CV183X).run({"x": x})["y"]
    np.testing.assert_allclose(result, run_vendor(path, {"x": x})["y"].reshape(SHAPE), rtol=1e-6)  # order of its sum
