"""ArgMax and ArgMin of long rows, which are searched in parts: indices are ONNX Runtime's, and the vendor's model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc_driver.session import Session

from tests.conftest import RunVendor

onnxruntime = pytest.importorskip("onnxruntime")

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "one row": ((1, 4096), 1),
    "three rows": ((3, 2310), 1),
    "a prime number": ((1, 2053), 1),
    "first axis": ((2112, 2), 0),
    "inside": ((1, 2, 2048, 1), 2),
}


def network(path: Path) -> None:
    """Every kind of search of every shape."""
    nodes: list[Any] = []
    inputs: list[Any] = []
    outputs: list[Any] = []
    for number, (dims, axis) in enumerate(SHAPES.values()):
        inputs.append(helper.make_tensor_value_info(f"x{number}", TensorProto.FLOAT, dims))
        left = tuple(extent for index, extent in enumerate(dims) if index != axis)
        for kind in ("ArgMax", "ArgMin"):
            for last in (0, 1):
                name = f"{kind}{last}_{number}"
                nodes.append(
                    helper.make_node(kind, [f"x{number}"], [name], axis=axis, keepdims=0, select_last_index=last)
                )
                outputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, left))
    graph = helper.make_graph(nodes, "extremes", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def samples(seed: int) -> dict[str, NDArray[Any]]:
    """Few different values, so that extremes occur in several parts: with zeros of both signs as the largest ones."""
    rng = np.random.default_rng(seed)
    found: dict[str, NDArray[Any]] = {}
    for number, (dims, _) in enumerate(SHAPES.values()):
        x = rng.integers(-6, 7, dims).astype(np.float32) / 4
        if seed % 3 == 1:
            x = -np.abs(x)
            x[x == 0] *= rng.choice([-1.0, 1.0], int((x == 0).sum())).astype(np.float32)
        if seed % 3 == 2:
            x = rng.normal(size=dims).astype(np.float32)
        found[f"x{number}"] = x
    return found


@pytest.mark.chip("bm1684x")
def test_places_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    path = tmp_path / "n.onnx"
    network(path)
    right = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    session = Session(chip="bm1684x", quantize="f32")
    session.compile(path, tmp_path / "n.bmodel")
    loaded = session.chip.load((tmp_path / "n.bmodel").read_bytes())
    for seed in range(3):
        given = samples(seed)
        found = loaded.run(given)
        for info, wanted in zip(right.get_outputs(), right.run(None, given), strict=True):
            assert np.array_equal(found[info.name].reshape(-1), wanted.reshape(-1)), (info.name, seed)


@pytest.mark.interop
def test_the_vendors_model_finds_the_same_places(run_vendor: RunVendor, tmp_path: Path) -> None:
    network(tmp_path / "n.onnx")
    session = Session(chip="bm1684x", quantize="f32")
    session.compile(tmp_path / "n.onnx", tmp_path / "n.bmodel")
    loaded = session.chip.load((tmp_path / "n.bmodel").read_bytes())
    for seed in range(3):
        given = samples(seed)
        theirs = run_vendor(tmp_path / "n.bmodel", given)
        for name, array in loaded.run(given).items():
            assert np.array_equal(theirs[name].reshape(array.shape), array), (name, seed)


@pytest.mark.chip("bm1684x")
def test_more_values_than_are_compared_at_once(tmp_path: Path) -> None:
    """In groups, whose best compete with each other."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 40000))
    results = [
        helper.make_tensor_value_info(name, kind, (1, 50))
        for name, kind in (("values", TensorProto.FLOAT), ("places", TensorProto.INT64))
    ]
    count = helper.make_tensor("count", TensorProto.INT64, [1], [50])
    node = helper.make_node("TopK", ["x", "count"], ["values", "places"], axis=1)
    graph = helper.make_graph([node], "best", [x], results, [count])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    right = onnxruntime.InferenceSession(tmp_path / "n.onnx", providers=["CPUExecutionProvider"])
    session = Session(chip="bm1684x", quantize="f32")
    session.compile(tmp_path / "n.onnx", tmp_path / "n.bmodel")
    given = {"x": np.random.default_rng(5).integers(0, 20000, (1, 40000)).astype(np.float32)}
    found = session.chip.load((tmp_path / "n.bmodel").read_bytes()).run(given)
    for name, wanted in zip(("values", "places"), right.run(None, given), strict=True):
        assert np.array_equal(found[name], wanted), name
