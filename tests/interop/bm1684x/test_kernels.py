"""The files of the kernel conformance tests, on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc.testing.kernel_conformance import compile_kernels

from tests.chips.bm1684x.kernels import samples
from tests.conftest import RunVendor


@pytest.mark.interop
@pytest.mark.parametrize("subject", samples.ALL)
def test_the_vendors_model_equals_the_evaluation(subject: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    compiled = compile_kernels(samples.ALL[subject], "bm1684x")
    path = tmp_path / f"{subject}.bmodel"
    path.write_bytes(compiled.data)
    compiled.compare(run_vendor(path, compiled.inputs))
