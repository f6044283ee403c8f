"""The command lists the constants of a module that is written here."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
from tpuc_driver.cli import main

MODULE = """
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "net.npz"} {
  func.func @main(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("x")
    %1 = "top.Weight"() : () -> tensor<1x4xf32> loc("small")
    %2 = "top.Weight"() : () -> tensor<2x4xf32> loc("large")
    %3 = "top.Add"(%0, %1) : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32> loc("once")
    %4 = "top.Add"(%3, %2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc("twice")
    return %4 : tensor<2x4xf32>
  }
}
"""


def printed(*arguments: str) -> str:
    """What the command prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["weights", *arguments]) == 0
    return output.getvalue()


def test_the_largest_comes_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "net.npz", small=np.zeros((1, 4), np.float32), large=np.zeros((2, 4), np.float32))
    file = tmp_path / "net.mlir"
    file.write_text(MODULE, encoding="utf-8")
    assert list(json.loads(printed(str(file), "--json")).items()) == [("large", 32), ("small", 16)]
    assert printed(str(file)).split() == ["32", "large", "16", "small"]
