"""The files of the kernel conformance tests, on the vendor's functional model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.bm1684x.kernels import folded_samples, integer_sums, pool_samples, samples, stated_sums
from tests.chips.bm1684x.kernels.generated import KINDS, generated
from tests.chips.few_samples import chosen
from tests.conftest import RunVendor

SUBJECTS = samples.ALL | integer_sums.ALL | stated_sums.ALL


@pytest.mark.interop
@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_vendors_model_equals_the_evaluation(
    subject: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    _check(chosen(SUBJECTS[subject], thorough), run_vendor, tmp_path / f"{subject}.bmodel")


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
def test_the_vendors_model_equals_generated_samples(
    kind: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    _check(generated(kind, 40 if thorough else 16), run_vendor, tmp_path / f"{kind}.bmodel")


@pytest.mark.interop
def test_the_vendors_model_equals_folded_rows(run_vendor: RunVendor, tmp_path: Path) -> None:
    compiled = folded_samples.compiled("bm1684x", Registry())
    (tmp_path / "folded.bmodel").write_bytes(compiled.data)
    compiled.compare(run_vendor(tmp_path / "folded.bmodel", compiled.inputs))


@pytest.mark.interop
def test_the_vendors_model_equals_pools_in_two_steps(run_vendor: RunVendor, tmp_path: Path) -> None:
    _check(pool_samples.ALL, run_vendor, tmp_path / "pools.bmodel")


def _check(cases: Mapping[str, Sample], run_vendor: RunVendor, path: Path) -> None:
    compiled = compile_kernels(cases, "bm1684x")
    path.write_bytes(compiled.data)
    compiled.compare(run_vendor(path, compiled.inputs))
