"""Gated products of many rows, whose values pass through local memory in parts, on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.chips.weight_only import gated
from tests.conftest import RunVendor


@pytest.mark.interop
@pytest.mark.parametrize(("shape", "inner", "bits"), [((1, 600, 72), 8200, 4), ((2, 150, 72), 9000, 16)])
def test_the_vendors_model_equals_the_simulator(
    shape: tuple[int, ...], inner: int, bits: int, run_vendor: RunVendor, tmp_path: Path
) -> None:
    module, inputs, _ = gated(shape, inner, bits, is_last=False)
    session = Session(chip="bm1684x", quantize="f16")
    boundary = Boundary(input_types=("f16",), output_types=("f16",))
    session.deploy(module, tmp_path / "m.bmodel", boundary=boundary)
    file = session.opened(tmp_path / "m.bmodel")
    wanted = session.simulate(file.chip, file.container(0), inputs)["y"]
    (found,) = run_vendor(tmp_path / "m.bmodel", inputs).values()
    np.testing.assert_array_equal(found.view("u2").reshape(-1), wanted.view("u2").reshape(-1))
