"""The kernels of `test_more_kernels` on the vendor's functional model: the same files give the simulator's bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.steps import check_steps
from tests.chips.cv18.vendor import assert_same_bits
from tests.chips.cv183x.test_more_kernels import GROUPS
from tests.chips.few_samples import chosen
from tests.conftest import RunVendor


@pytest.mark.interop
@pytest.mark.parametrize("samples", GROUPS.values(), ids=GROUPS)
def test_the_vendors_model_equals_simulator_and_evaluation(
    samples: dict[str, Sample], thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    registry = Registry()
    compiled = compile_kernels(chosen(samples, thorough), "cv183x", registry)
    path = tmp_path / "kernels.cvimodel"
    path.write_bytes(compiled.data)
    vendor = run_vendor(
        path,
        {name: array.view("u2") if array.dtype.itemsize == 2 else array for name, array in compiled.inputs.items()},
    )
    check_steps(compiled.module, {**vendor, **compiled.inputs})
    assert_same_bits(registry.get("tpuc.chips", "cv183x").load(compiled.data, "kernels").run(compiled.inputs), vendor)
