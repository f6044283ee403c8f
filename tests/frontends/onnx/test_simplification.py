"""The ONNX file that a network becomes on the way: the same results, fewer nodes, static shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.api import ImportOptions
from tpuc_onnx.frontend import FRONTEND

from tests.frontends.onnx.networks import network, node, run_onnx, values

WEIGHTS: dict[str, NDArray[Any]] = {
    "w": values(4, 3, 3, 3, seed=1),
    "two": np.array([2], np.float32),
    "unused": np.zeros(7, np.float32),
    "minus": np.array([-1], np.int64),
}
NODES = (
    node("Mul", "w two", "doubled"),
    node("Conv", "x doubled", "c"),
    node("Relu", "c", "r"),
    node("Shape", "r", "extents"),
    node("Slice", "extents zero one", "batch"),
    node("Concat", "batch minus", "wanted", axis=0),
    node("Reshape", "r wanted", "y"),
    node("Sigmoid", "y", "s"),
)
CONSTANTS: dict[str, NDArray[Any]] = {"zero": np.array([0], np.int64), "one": np.array([1], np.int64)}


def written(folder: Path) -> tuple[onnx.ModelProto, Path]:
    model = network(NODES, {"x": ["n", 3, 6, 5]}, ["s"], {**WEIGHTS, **CONSTANTS})
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return model, path


def simplified(path: Path, **options: Any) -> tuple[onnx.ModelProto, str]:
    files = FRONTEND.simplified(path, ImportOptions("net", **options))
    assert list(files) == ["_opt.onnx", "_opt.onnx.prototxt"]
    model = onnx.ModelProto()
    model.ParseFromString(files["_opt.onnx"])
    onnx.checker.check_model(model, full_check=True)
    return model, files["_opt.onnx.prototxt"].decode()


def test_results_are_the_same_with_constants_folded(tmp_path: Path) -> None:
    model, path = written(tmp_path)
    opt, text = simplified(path, input_shapes=((2, 3, 6, 5),))
    assert [one.op_type for one in opt.graph.node] == ["Conv", "Relu", "Reshape", "Sigmoid"]
    assert sorted(tensor.name for tensor in opt.graph.initializer) == ["doubled", "wanted"]
    x = values(2, 3, 6, 5, seed=5)
    np.testing.assert_array_equal(run_onnx(opt, {"x": x})["s"], run_onnx(model, {"x": x})["s"])
    assert 'op_type: "Conv"' in text
    assert "raw_data" not in text


def test_shapes_are_static_and_every_value_has_one(tmp_path: Path) -> None:
    opt, _ = simplified(written(tmp_path)[1], input_shapes=((2, 3, 6, 5),))
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*opt.graph.input, *opt.graph.value_info, *opt.graph.output)
    }
    assert shapes == {"x": [2, 3, 6, 5], "c": [2, 4, 4, 3], "r": [2, 4, 4, 3], "y": [2, 48], "s": [2, 48]}


def test_it_is_cut_at_the_outputs_that_were_chosen(tmp_path: Path) -> None:
    model, path = written(tmp_path)
    opt, _ = simplified(path, input_shapes=((1, 3, 6, 5),), output_names=("c",))
    assert [one.op_type for one in opt.graph.node] == ["Conv"]
    assert [value.name for value in opt.graph.output] == ["c"]
    assert len(model.graph.node) == len(NODES)  # and the file itself is untouched


def test_files_of_a_version_whose_weights_are_inputs(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": [2, 3], "w": [2, 3]}, ["y"], {"w": values(2, 3)}, opset=8)
    model.ir_version = 3
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    opt, _ = simplified(tmp_path / "net.onnx")
    assert [value.name for value in opt.graph.input] == ["x"]


def test_weights_of_integers_stay_integers(tmp_path: Path) -> None:
    weights = {"q": np.arange(6, dtype=np.int8).reshape(2, 3), "scale": np.array(0.5, np.float32)}
    model = network([node("DequantizeLinear", "q scale", "w"), node("Mul", "x w", "y")], {"x": [2, 3]}, ["y"], weights)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    opt, _ = simplified(tmp_path / "net.onnx")
    assert [one.op_type for one in opt.graph.node] == ["DequantizeLinear", "Mul"]


def test_weights_too_large_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuc_onnx.simplification.LARGEST_FILE", 100)
    assert FRONTEND.simplified(written(tmp_path)[1], ImportOptions("net", input_shapes=((1, 3, 6, 5),))) == {}
