"""A handful of outliers does not move the threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from acme_tools.trimmed import Trimmed
from tpuc.api import Registry
from tpuc.api.evaluation import Interpreter
from tpuc_driver.api.host import Session


def test_outliers_are_dropped(tmp_path: Path) -> None:
    """Of ten thousand values up to 1 five are 100: they lie in the last bins, and the rest below."""
    text = """module @net attributes {module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x10000xf32>) -> tensor<1x10000xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x10000xf32>) -> tensor<1x10000xf32> loc("x")
    %1 = "top.Abs"(%0) : (tensor<1x10000xf32>) -> tensor<1x10000xf32> loc("y")
    %2 = "top.Sqrt"(%1) : (tensor<1x10000xf32>) -> tensor<1x10000xf32> loc("z")
    return %2 : tensor<1x10000xf32>
  }
}
"""
    (tmp_path / "net.mlir").write_text(text)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 1, 10000)).astype(np.float32)
    x[..., :5] = 100
    np.savez(tmp_path / "x.npz", x=x)
    session = Session(Registry())
    module = session.load(tmp_path / "net.mlir")
    assert Interpreter(module).run({"x": x[0]})["z"].max() == 10
    table = session.calibrate(module, dataset=tmp_path / "x.npz", method="trimmed", options={"tune_num": 0})
    assert 0.9 < table.entries["y"].threshold < 1.1
    assert session.registry.get("tpuc.calibrators", "trimmed") is Trimmed
