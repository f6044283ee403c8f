"""The plugins of the how-to page, run through the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.registry import Offer
from tpuc.registry.offers import installed_offers
from tpuc_driver.cli import main
from tpuc_testing.packages import make_importable

from tests.third_party.distributions import ACME_TOOLS

make_importable(ACME_TOOLS)

OFFERS = (
    Offer("tpuc.metrics", "balanced", "acme", "1", "acme_tools.balanced:Balanced"),
    Offer("tpuc.postprocess", "yes", "acme", "1", "acme_tools.yes:Yes"),
)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Its input is the probability of class 1."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["p"])],
        "yes",
        [value("x", TensorProto.FLOAT, (1, 1))],
        [value("p", TensorProto.FLOAT, (1, 1))],
    )
    path = tmp_path / "yes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return path


def test_metric_and_postprocess_of_another_package(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers = (*installed_offers(), *OFFERS)
    monkeypatch.setattr("tpuc.registry.registry.installed_offers", lambda: offers)
    # class 0: two of three right; class 1: the only one right
    x = np.array([[0.1], [0.2], [0.9], [0.7]], np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=[0, 0, 0, 1])
    command = ["eval", str(network), "--dataset", str(tmp_path / "data.npz"), "--postprocess=yes", "--json"]
    assert main([*command, "--metric=balanced"]) == 0
    figures = json.loads(capsys.readouterr().out)["models"][0]["figures"]
    assert figures == {"balanced accuracy": pytest.approx((2 / 3 + 1) / 2)}
    inside = str(tmp_path / "inside.mlir")
    assert main(["transform", "--model-name=yes", f"--model-def={network}", "--post=yes", f"--mlir={inside}"]) == 0
    assert main(["eval", inside, *command[2:4], "--metric=balanced", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["figures"] == figures
    assert main([*command, "--metric=balanced{least=2}"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["figures"] == {"balanced accuracy": pytest.approx(2 / 3)}
    assert main([*command, "--metric=balanced{least=4}"]) == 2
    assert "metric 'balanced': no class has 4 samples; lower its option least." in capsys.readouterr().err
