"""Eight real networks on the vendor's functional model: every integer equal, floats within the contract's bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.test_networks import assert_same
from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.real import network_file, samples_of

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CASES = [(name, 1) for name in (*TASKS, "mnist", "resnet50")] + [("mobilenet_v1", 4), ("blazeface", 4)]


@pytest.mark.parametrize("mode", ["int8", "f32"])
@pytest.mark.parametrize(("name", "batch"), CASES)
def test_the_vendors_model_gives_the_same(
    name: str, batch: int, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(network_file(name, model_data, tmp_path), batch=batch)
    (spec,) = inputs_of(module)
    samples = samples_of(name, spec.shape, model_data)
    table = None
    if mode == "int8":
        file = tmp_path / "samples.npz"
        np.savez(file, **{spec.name: samples.reshape(-1, *spec.shape)})
        table = session.calibrate(module, dataset=file, options={"tune_num": 0})
    final, data = build_exposed(session, module, table)
    inputs = {spec.name: samples[0]}
    path = tmp_path / "model.bmodel"
    path.write_bytes(data)
    names = {info.name: np.empty(0) for info in session.chip.load(data).outputs}
    assert_same(run_vendor(path, inputs), Interpreter(final).run(inputs, "all"), names)
