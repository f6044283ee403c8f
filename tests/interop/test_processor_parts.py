"""Networks with several parts on the processor, run by the vendor's runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.chips.processor_networks import Drawn
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


# The runtime of CV18xx takes regions of one image.
@pytest.mark.parametrize(
    ("chip", "mode", "images"), [("bm1684x", "f32", 3), ("cv183x", "bf16", 1), ("cv181x", "bf16", 1)]
)
@pytest.mark.parametrize("seed", range(12))
def test_parts(chip: str, mode: str, images: int, seed: int, run_vendor: RunVendor, tmp_path: Path) -> None:
    drawn, session = Drawn(seed, images), Session(chip=chip, quantize=mode, cpu_ops=("ROIPooling",))
    target = tmp_path / f"net{session.chip.description.suffix}"
    target.write_bytes(session.build(drawn.read(tmp_path)).data)
    ours, theirs = session.chip.load(target.read_bytes()).run(drawn.given), run_vendor(target, drawn.given)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert np.array_equal(theirs[name].reshape(array.shape), array), name
