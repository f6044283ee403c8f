"""Masks that are inputs, -inf too, on the vendor's models of chips without infinity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc.api.evaluation import Array
from tpuc_ops.top.softmax import softmax

pytestmark = pytest.mark.interop

TEXT = """
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x5x8xf32>, %arg1: tensor<1x1x5x8xf32>) -> tensor<1x3x5x8xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x3x5x8xf32>) -> tensor<1x3x5x8xf32> loc("x")
    %1 = "top.Input"(%arg1) : (tensor<1x1x5x8xf32>) -> tensor<1x1x5x8xf32> loc("m")
    %2 = "top.Add"(%0, %1) : (tensor<1x3x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<1x3x5x8xf32> loc("s")
    %3 = "top.Softmax"(%2) {axis = 3 : si32} : (tensor<1x3x5x8xf32>) -> tensor<1x3x5x8xf32> loc("y")
    return %3 : tensor<1x3x5x8xf32>
  }
}
"""


@pytest.mark.parametrize(("chip", "suffix"), [("cv181x", "cvimodel"), ("cv183x", "cvimodel"), ("bm1684x", "bmodel")])
def test_infinite_masks_hide(chip: str, suffix: str, run_vendor: Any, tmp_path: Path) -> None:
    rng, lowest = np.random.default_rng(0), float(np.finfo(np.float32).min)
    (tmp_path / "net.mlir").write_text(TEXT, encoding="utf-8")
    x = rng.standard_normal((1, 3, 5, 8)).astype(np.float32)
    hides = np.array([-np.inf, lowest, -3.39e38, -1e9, -10000.0], np.float32)[:, None]
    mask = np.where(rng.random((1, 1, 5, 8)) < 0.5, 0, hides).astype(np.float32)
    mask[..., 0] = 0
    compiled = tpuc.load(tmp_path / "net.mlir").compile(chip, mode="bf16")
    compiled.save(tmp_path / f"net.{suffix}")
    given = {"x": x, "m": mask}
    ours: Array = next(iter(compiled.run(given).values()))
    theirs: Array = next(iter(run_vendor(tmp_path / f"net.{suffix}", given).values()))
    # The runtime's own softmax on the processor may differ in the last bit.
    np.testing.assert_allclose(theirs.reshape(-1), ours.reshape(-1), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours.reshape(x.shape), softmax(x + mask, -1, 1.0, log=False), atol=0.02)
