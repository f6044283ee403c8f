"""The package for Model Explorer: graphs of modules, node data, and the adapter where Model Explorer is installed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import Registry, read_module
from tpuc_driver.api.command import App
from tpuc_driver.cli import main

PACKAGE = Path(__file__).resolve().parents[3] / "packages" / "tpuc-model-explorer"
MODULE = """#loc1 = loc("x")
module @net attributes {module.chip = "ALL", module.platform = "ONNX", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> tensor<1x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc1)
    %1 = "top.Relu"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc2)
    %2 = "top.Add"(%0, %1) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc3)
    return %2 : tensor<1x4xf32>
  } loc(unknown)
} loc(unknown)
#loc2 = loc("/block/r")
#loc3 = loc("/block/y")
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "net.mlir"
    path.write_text(MODULE)
    return path


def test_a_graph_has_a_node_for_each_layer(module: Path) -> None:
    from tpuc_model_explorer.graph import graph_of

    graph = graph_of(read_module(module, Registry().resolve_op))
    assert graph["id"] == "net"
    x, r, y = graph["nodes"]
    assert [(node["id"], node["label"], node["namespace"]) for node in (x, r, y)] == [
        ("x", "Input", ""),
        ("/block/r", "Relu", "block"),
        ("/block/y", "Add", "block"),
    ]
    assert x["incomingEdges"] == []
    assert [edge["sourceNodeId"] for edge in y["incomingEdges"]] == ["x", "/block/r"]
    assert {"key": "relu_limit", "value": "-1.0"} in r["attrs"]
    assert {"key": "tensor_name", "value": "/block/y"} in y["outputsMetadata"][0]["attrs"]


def test_errors_and_cycles_are_node_data(module: Path, tmp_path: Path) -> None:
    """The last value is x + relu(x) = 2, 4, 6, -4 against x + abs(x) = 2, 4, 6, 0: the error is 16 of 72, 6.53 dB."""
    from tpuc_model_explorer.command import command

    other, samples = tmp_path / "other.mlir", tmp_path / "x.npz"
    other.write_text(MODULE.replace('"top.Relu"', '"top.Abs"'))
    np.savez(samples, x=np.array([[1, 2, 3, -4]], np.float32))
    words = [str(module), str(other), "--input", str(samples), "-o", str(tmp_path / "data")]
    command.main(words, standalone_mode=False, obj=App())
    data = json.loads((tmp_path / "data" / "errors.json").read_text())
    assert data["net"]["name"] == "SQNR dB"
    assert {name: round(one["value"], 2) for name, one in data["net"]["results"].items()} == {
        "/block/r": -0.58,  # 16 of 14; the input is equal, for which there is no number
        "/block/y": 6.53,
    }


@pytest.mark.chip("bm1684x")
def test_cycles_are_those_of_the_profile(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tpuc_model_explorer.command import command

    samples, file = tmp_path / "x.npz", tmp_path / "digits.bmodel"
    np.savez(samples, x=np.array([[1, 2, 3, -4]], np.float32))
    network = PACKAGE.parents[1] / "examples" / "digits" / "digits.onnx"
    assert main(["compile", str(network), "--chip", "bm1684x", "-o", str(file)]) == 0
    words = [str(module), str(module), "--input", str(samples), "--compiled", str(file), "-o", str(tmp_path / "data")]
    command.main(words, standalone_mode=False, obj=App())
    cycles = json.loads((tmp_path / "data" / "cycles.json").read_text())["net"]["results"]
    capsys.readouterr()
    assert main(["profile", str(file), "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    wanted = {one["name"]: one["compute_cycles"] + one["dma_cycles"] for one in layers}
    assert {name: one["value"] for name, one in cycles.items()} == wanted


def test_the_adapter_hands_the_graph_on(module: Path) -> None:
    pytest.importorskip("model_explorer", reason="needs ai-edge-model-explorer")
    from tpuc_model_explorer.graph import graph_of
    from tpuc_model_explorer.main import TpucAdapter

    found: dict[str, Any] = TpucAdapter().convert(str(module), {})
    (graph,) = map(asdict, found["graphs"])
    wanted = graph_of(read_module(module, Registry().resolve_op))
    for node, expected in zip(graph["nodes"], wanted["nodes"], strict=True):
        assert {name: node[name] for name in expected} == expected
