"""States between runs, which this chip's runtime does not keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc.api import Unsupported
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.frontends.tflite.test_variables import streaming


def test_a_chip_whose_runtime_keeps_nothing_refuses(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(streaming())
    session = Session(chip="bm1684x", quantize="f32")
    module = session.transform(tmp_path / "net.tflite")
    with pytest.raises(Unsupported, match=r"^net: chip 'bm1684x' keeps nothing from one run to the next; compile the"):
        session.build(module, boundary=Boundary(state="internal"))
