"""TOP ops by themselves on the vendor's functional model: what the unit tests compile gives the same there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chips.cv183x.lowering_cases import cases_of, check_case, compile_cases
from tests.chips.cv183x.steps import check_steps
from tests.conftest import RunVendor
from tests.interop.cv183x.test_networks import assert_same_bits

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_the_vendors_model_equals_simulator_and_evaluation(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    names = cases_of(mode)
    compiled = compile_cases(names, mode)
    path = tmp_path / "ops.cvimodel"
    path.write_bytes(compiled.data)
    vendor = run_vendor(path, compiled.inputs)
    check_steps(compiled.final, {**vendor, **compiled.inputs})
    for name in names:
        check_case(name, compiled, vendor)
    assert_same_bits(compiled.session.chip.load(compiled.data).run(compiled.inputs), vendor)
