"""Samples of images on the vendor's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.chips.cv183x.test_scatters import write_samples
from tests.conftest import RunVendor
from tests.families import each

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("chip", ["cv183x", "cv181x"])
@each("seed", range(12))
def test_samples_are_those_of_the_vendors_runtime(chip: str, seed: int, run_vendor: RunVendor, tmp_path: Path) -> None:
    inputs = write_samples(tmp_path / "net.onnx", seed)
    session = Session(chip=chip, quantize="bf16")
    data = session.build(session.transform(tmp_path / "net.onnx")).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    (got,), (vendor,) = session.chip.load(data).run(inputs).values(), run_vendor(target, inputs).values()
    assert np.array_equal(got.reshape(-1), vendor.reshape(-1))
