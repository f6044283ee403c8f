"""Scales per channel on the vendor's functional model: the simulator's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.cv18.vendor import assert_same_bits
from tests.conftest import RunVendor
from tests.passes.accuracy.test_channels import images, network


@pytest.mark.interop
def test_the_vendors_model_equals_the_simulator(run_vendor: RunVendor, tmp_path: Path) -> None:
    module, _ = network()
    np.savez(tmp_path / "x.npz", v0=images(24))
    session = Session(chip="cv183x", quantize="int8")
    _, exposed = build_exposed(session, module, session.calibrate(module, dataset=tmp_path / "x.npz"))
    path = tmp_path / "channels.cvimodel"
    path.write_bytes(exposed)
    x = {"v0": images(1, seed=6)[0]}
    assert_same_bits(session.chip.load(exposed).run(x), run_vendor(path, x))
