"""Networks compiled for both cores of BM1688: the vendor's runtime gives the simulator's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.interop.bm1688.conftest import RunFile
from tests.passes.planning.test_images import _network

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("mode", "batch"), [("f16", 4), ("f32", 2), ("bf16", 3)])
def test_the_runtime_equals_the_simulator(mode: str, batch: int, run_file: RunFile, tmp_path: Path) -> None:
    _network(tmp_path / "images.onnx", batch)
    session = Session(chip="bm1688", quantize=mode, cores=2)
    data = session.build(session.transform(tmp_path / "images.onnx")).data
    path = tmp_path / "two.bmodel"
    path.write_bytes(data)
    loaded = session.chip.load(data)
    random = np.random.default_rng(0)
    inputs = {info.name: random.standard_normal(info.shape).astype(np.float32) for info in loaded.inputs}
    ours, theirs = loaded.run(inputs), run_file(path, inputs)
    assert {name: array.tobytes() for name, array in ours.items()} == {
        name: array.tobytes() for name, array in theirs.items()
    }
    assert {part.core for part in loaded._parts} == {0, 1}
