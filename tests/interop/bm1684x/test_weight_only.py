"""Products with matrices of small integers on the vendor's runtime: bit for bit ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.chips.weight_only import CASES, network
from tests.conftest import RunVendor


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f16", "bf16"])
def test_products_are_what_the_runtime_computes(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    module, inputs, _ = network(CASES)
    session, types = Session(chip="bm1684x", quantize=mode), (mode,) * len(CASES)
    path = tmp_path / "m.bmodel"
    session.deploy(module, path, boundary=Boundary(input_types=types, output_types=types))
    file = session.opened(path)
    given = inputs if mode == "f16" else {name: array.astype(bfloat16) for name, array in inputs.items()}
    ours = session.simulate(file.chip, file.container(0), given)
    raw = given if mode == "f16" else {name: array.view(np.uint16) for name, array in given.items()}
    theirs = run_vendor(path, raw)
    for name, array in ours.items():
        assert array.tobytes() == np.ascontiguousarray(theirs[name]).tobytes(), name
