"""Layers of the processor run by the vendor's runtime and its library of layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_bm1684x.chip import CHIP

from tests.chips.bm1684x.layered_networks import TEXTS, read_detections
from tests.chips.bm1684x.test_cpu_layers import built, built_detections
from tests.chips.pooled_regions import REGIONS
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("case", TEXTS)
def test_parts_of_the_tpu_and_of_the_processor(case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    target = tmp_path / "net.bmodel"
    target.write_bytes(built(case, tmp_path))
    ours, theirs = CHIP.load(target.read_bytes()).run(REGIONS), run_vendor(target, REGIONS)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert np.array_equal(theirs[name].reshape(array.shape), array), name


@pytest.mark.parametrize("code", ["CORNER", "CENTER_SIZE", "CORNER_SIZE"])
@pytest.mark.parametrize("threshold", [0.5, 0.98, 1.0])
def test_detections(code: str, threshold: float, run_vendor: RunVendor, tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, code, threshold)
    target = tmp_path / "net.bmodel"
    target.write_bytes(built_detections(module))
    (ours,) = CHIP.load(target.read_bytes()).run(operands).values()
    (theirs,) = run_vendor(target, operands).values()
    # Boxes in float32, whose products are taken in another order.
    np.testing.assert_allclose(theirs.reshape(ours.shape), ours, rtol=0, atol=1e-6)
