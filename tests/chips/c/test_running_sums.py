"""Running sums in C, whose lowering is one of a chip with lanes: the limits of lanes are not those of C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.frontends.onnx.networks import network, node


@pytest.mark.chip("c")
def test_running_sums_are_lowered(tmp_path: Path) -> None:
    model = network([node("CumSum", "x axis", "y")], {"x": (1, 2, 6)}, ["y"], {"axis": np.array(2, np.int64)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="c", quantize="f32")
    built = session.build(session.transform(tmp_path / "net.onnx"))
    assert any(one.op.name == "tpu.Scan" for one in built.module.main.operations)
