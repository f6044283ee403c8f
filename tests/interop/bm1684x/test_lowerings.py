"""Every lowering in every mode on the vendor's functional model, op by op."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.kernels.test_lowerings import MODES, whole_network
from tests.chips.bm1684x.steps import check_steps
from tests.chips.lowered import EVERYTHING_IN_INTEGERS
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", MODES)
def test_the_vendors_model_gives_what_ops_evaluate_to(
    mode: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    module, inputs, table = whole_network(mode, thorough)
    session = Session(chip="bm1684x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, table if mode.startswith("int8") else None)
    path = tmp_path / "model.bmodel"
    path.write_bytes(data)
    assert check_steps(final, run_vendor(path, inputs) | inputs).total() > (150 if thorough else 40)
