"""Narrow groups of integers share one convolution, and the vendor's model computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_bm1684x.isa import Conv
from tpuc_driver.session import Session

from benchmarks.architectures.graph import Graph
from tests.conftest import RunVendor
from tests.families import each

CASES = {
    "four channels": (64, 64, 16, 1, 1),
    "more filters than channels": (72, 144, 6, 1, 3),
    "strided, several slots": (128, 256, 32, 2, 4),
    "three of nine": (27, 27, 9, 1, 1),
    "wide": (120, 120, 3, 1, 3),
}
"""Channels, filters, groups, stride, and the convolutions of a tile with all channels."""


def _built(case: str, mode: str, folder: Path) -> tuple[Any, Any, bytes, dict[str, Any]]:
    channels, filters, groups, stride, _ = CASES[case]
    net = Graph()
    y = net.each("Relu", net.conv(net.input(channels, 12, 10), filters, 3, stride, groups=groups))
    (folder / "net.onnx").write_bytes(net.model(y).SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(folder / "net.onnx")
    inputs = {"x0": np.random.default_rng(5).standard_normal((1, channels, 12, 10)).astype(np.float32)}
    np.savez(folder / "samples.npz", **inputs)  # type: ignore[arg-type]
    table: Any = None
    if mode == "int8":
        table = session.calibrate(module, dataset=folder / "samples.npz", options={"tune_num": 0, "bias_num": 0})
    final, data, *_ = session.build(module, table)
    return final, session.chip.load(data), data, inputs


@each("case", list(CASES))
def test_as_many_groups_as_the_array_multiplies_at_once(case: str, tmp_path: Path) -> None:
    final, loaded, _, inputs = _built(case, "int8", tmp_path)
    (found,), (wanted,) = loaded.run(inputs).values(), Interpreter(final).run(inputs).values()
    assert np.array_equal(found, wanted)
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    assert sum(isinstance(command, Conv) for command in commands) == CASES[case][4]


def test_infinities_of_floats_stay_in_their_group(tmp_path: Path) -> None:
    _, loaded, _, inputs = _built("four channels", "f16", tmp_path)
    inputs["x0"][:, 5] = np.inf
    (found,) = loaded.run(inputs).values()
    assert np.isfinite(np.delete(found, range(4, 8), 1)).all()


@pytest.mark.interop
@pytest.mark.parametrize("case", list(CASES))
def test_the_vendors_model_agrees_on_groups(case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, loaded, data, inputs = _built(case, "int8", tmp_path)
    (tmp_path / "net.bmodel").write_bytes(data)
    theirs = run_vendor(tmp_path / "net.bmodel", inputs)
    for name, array in loaded.run(inputs).items():
        assert np.array_equal(theirs[name].reshape(-1), array.reshape(-1)), name
