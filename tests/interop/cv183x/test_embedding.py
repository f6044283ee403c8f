"""Rows of long tables on the vendor's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session

from tests.chips.cv183x.test_embedding import CHIPS, FORMS, ROWS, token_numbers, write_text
from tests.conftest import RunVendor
from tests.families import each

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("chip", CHIPS)
@each("case", FORMS)
def test_rows_are_those_of_the_vendors_runtime(chip: str, case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize="bf16")
    data = session.build(session.transform(write_text(tmp_path / "text.onnx", **FORMS[case]))).data
    target = tmp_path / "text.cvimodel"
    target.write_bytes(data)
    ids = {"ids": token_numbers(FORMS[case].get("rows", ROWS)).astype(np.int32)}
    (got,), (vendor,) = session.chip.load(data).run(ids).values(), run_vendor(target, ids).values()
    assert np.array_equal(got.reshape(-1), vendor.reshape(-1))
