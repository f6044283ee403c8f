"""The vendor's runtime takes a network for several shapes, whichever was compiled first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.chips.test_combined import LARGE, SMALL, values, write
from tests.conftest import RunVendor


@pytest.mark.interop
@pytest.mark.parametrize("shapes", [(SMALL, LARGE), (LARGE, SMALL)])
def test_the_largest_shapes_are_run_exactly(
    shapes: tuple[tuple[tuple[int, ...], ...], ...], run_vendor: RunVendor, tmp_path: Path
) -> None:
    session = Session(chip="bm1684x")
    session.compile_shapes(write(tmp_path / "net.onnx"), tmp_path / "net.bmodel", shapes)
    x = values(LARGE[0])
    np.save(tmp_path / "x.npy", x)
    wanted = session.run(tmp_path / "net.bmodel", [tmp_path / "x.npy"])
    got = run_vendor(tmp_path / "net.bmodel", {"x": x})
    assert np.array_equal(got["scores"], wanted["scores"])
