"""The files of 16-bit float kernels and of kernels with zero points, on the vendor's functional model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.bm1684x.kernels.narrow_samples import ASYMMETRIC, casts, narrow
from tests.chips.few_samples import chosen
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


def test_integers_with_zero_points_are_equal(thorough: bool, run_vendor: RunVendor, tmp_path: Path) -> None:
    _run(chosen(ASYMMETRIC, thorough), run_vendor, tmp_path / "asymmetric.bmodel")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrow_floats_are_within_the_bound(kind: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path) -> None:
    assert _run(chosen(narrow(kind), thorough), run_vendor, tmp_path / f"{kind}.bmodel")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_casts_of_narrow_floats_are_exact(kind: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    assert not any(_run(casts(kind), run_vendor, tmp_path / f"{kind}.bmodel").values())


def _run(cases: Mapping[str, Sample], run_vendor: RunVendor, path: Path) -> dict[str, float]:
    compiled = compile_kernels(cases, "bm1684x")
    path.write_bytes(compiled.data)
    # npz files have no bf16; the runtime takes its bits.
    inputs = {name: x.view(np.uint16) if x.dtype.name == "bfloat16" else x for name, x in compiled.inputs.items()}
    return compiled.compare(run_vendor(path, inputs))
