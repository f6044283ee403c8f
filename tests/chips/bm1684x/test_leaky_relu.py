"""Leaky relus of integers: every stored value rounded to the nearest integer, by products instead of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_driver.session import Session

from benchmarks.architectures.graph import Graph
from tests.conftest import RunVendor
from tests.families import each

SLOPES = (0.01, 0.1, 0.2, 0.5, 0.9, 1.5, -0.3)
INPUTS = {"x0": np.linspace(-3.1, 3.1, 4096, dtype=np.float32).reshape(1, 16, 16, 16)}
"""All 256 stored values."""


def _built(slope: float, folder: Path) -> tuple[Module, Any, bytes]:
    net = Graph()
    y = net.each("LeakyRelu", net.input(16, 16, 16), alpha=slope)
    (folder / "net.onnx").write_bytes(net.model(y).SerializeToString())
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(folder / "net.onnx")
    np.savez(folder / "samples.npz", **INPUTS)  # type: ignore[arg-type]
    options = {"tune_num": 0, "bias_num": 0}
    table = session.calibrate(module, dataset=folder / "samples.npz", options=options, method="max")
    final, data, *_ = session.build(module, table)
    return final, session.chip.load(data), data


@each("slope", SLOPES)
def test_every_stored_value_is_rounded_to_the_nearest_integer(slope: float, tmp_path: Path) -> None:
    final, loaded, _ = _built(slope, tmp_path)
    (operation,) = (one for one in final.main.operations if one.op.name == "tpu.LeakyRelu")
    source, result = operation.operands[0].tensor.uniform.scale, operation.result.tensor.uniform.scale
    stored = np.clip(np.rint(INPUTS["x0"].astype(np.float64) / source), -128, 127)
    real = np.where(stored > 0, stored, np.float32(slope) * stored) * (source / result)
    (found,), (evaluated,) = loaded.run(INPUTS).values(), Interpreter(final).run(INPUTS).values()
    assert np.array_equal(found, evaluated)
    assert len(np.unique(stored)) > 250
    assert np.abs(found / result - np.clip(real, -128, 127)).max() <= 0.5 + 1e-4


@pytest.mark.interop
@pytest.mark.parametrize("slope", SLOPES)
def test_the_vendors_model_agrees_on_slopes(slope: float, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, loaded, data = _built(slope, tmp_path)
    (tmp_path / "net.bmodel").write_bytes(data)
    theirs = run_vendor(tmp_path / "net.bmodel", INPUTS)
    for name, array in loaded.run(INPUTS).items():
        assert np.array_equal(theirs[name].reshape(-1), array.reshape(-1)), name
