"""Gathers, scatters, comparisons and order on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.testing.kernel_conformance import compile_kernels

from tests.chips.bm1684x.kernels import place_samples
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("subject", place_samples.ALL)
def test_the_vendors_model_equals_the_evaluation(subject: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    compiled = compile_kernels(place_samples.ALL[subject], "bm1684x")
    path = tmp_path / f"{subject}.bmodel"
    path.write_bytes(compiled.data)
    # npz files have no bf16; the runtime takes its bits.
    inputs = {name: x.view(np.uint16) if x.dtype.name == "bfloat16" else x for name, x in compiled.inputs.items()}
    compiled.compare(run_vendor(path, inputs))
