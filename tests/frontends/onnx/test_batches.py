"""A batch of the user's choice: constants that state the file's own one follow, others stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import ImportOptions
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import network, node, read, run_onnx, values

BATCH = 3


@each("target", [[1, 24], [1, -1], [-1, 24], [0, 24], [1, 4, 6], [-1, 6]])
def test_reshapes(target: list[int], tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Reshape", "r shape", "y")]
    model = network(nodes, {"x": [1, 2, 3, 4]}, ["y"], {"shape": np.array(target, np.int64)})
    x = values(BATCH, 2, 3, 4)
    got = Interpreter(read(model, tmp_path, ImportOptions(batch=BATCH))).run({"x": x})["y"]
    rows = [run_onnx(model, {"x": x[index : index + 1]})["y"] for index in range(BATCH)]
    assert np.array_equal(got, np.concatenate(rows))


def test_a_shared_shape_keeps_its_other_reader(tmp_path: Path) -> None:
    """Weights are reshaped by the same constant and have no batch."""
    nodes = [node("Reshape", "w shape", "v"), node("Reshape", "x shape", "f"), node("Add", "f v", "y")]
    constants = {"shape": np.array([1, 12], np.int64), "w": values(3, 4)}
    model = network(nodes, {"x": [1, 3, 4]}, ["y"], constants)
    x = values(BATCH, 3, 4, seed=2)
    got = Interpreter(read(model, tmp_path, ImportOptions(batch=BATCH))).run({"x": x})["y"]
    assert np.allclose(got, x.reshape(BATCH, 12) + constants["w"].reshape(1, 12))


def test_sizes_of_a_resize(tmp_path: Path) -> None:
    constants = {"roi": np.empty(0, np.float32), "scales": np.empty(0, np.float32)}
    constants["sizes"] = np.array([1, 2, 6, 8], np.int64)
    resize = node(
        "Resize",
        "x roi scales sizes",
        "y",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    model = network([resize], {"x": [1, 2, 3, 4]}, ["y"], constants)
    x = values(BATCH, 2, 3, 4)
    got = Interpreter(read(model, tmp_path, ImportOptions(batch=BATCH))).run({"x": x})["y"]
    assert np.array_equal(got, x.repeat(2, 2).repeat(2, 3))


def test_an_open_batch_is_closed_and_given_shapes_follow(tmp_path: Path) -> None:
    model = network([node("Relu", "x", "y")], {"x": ["N", 5]}, ["y"])
    assert read(model, tmp_path, ImportOptions(batch=BATCH)).main.inputs[0].tensor.dims == (BATCH, 5)
    options = ImportOptions(batch=BATCH, input_shapes=((1, 5),))
    assert read(model, tmp_path, options).main.inputs[0].tensor.dims == (BATCH, 5)
