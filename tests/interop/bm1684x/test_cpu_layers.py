"""Layers of the processor run by the vendor's runtime and its library of layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_bm1684x.chip import CHIP

from tests.chips.bm1684x.layered_networks import TEXTS
from tests.chips.bm1684x.test_cpu_layers import built
from tests.chips.cv183x.test_cpu_ops import REGIONS
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
