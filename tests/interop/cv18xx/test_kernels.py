"""Kernels on the vendor's functional models: every value is what its op evaluates to, in our simulator's bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.kernel_samples import FLOATS, INTEGERS
from tests.chips.cv18.steps import check_steps
from tests.chips.cv18.vendor import assert_same_bits
from tests.chips.cv18xx import NAMES
from tests.chips.cv18xx.kernel_cases import BYTE_ROWS, FLOAT_ROWS, ROWS, SEPARATE, STRIDES
from tests.chips.few_samples import chosen
from tests.conftest import RunVendor

FEWEST_LANES = "cv180x"


@pytest.mark.interop
@pytest.mark.parametrize(
    ("chip", "samples"),
    [
        *((chip, samples) for chip in NAMES for samples in (ROWS, STRIDES, INTEGERS, FLOATS)),
        *((FEWEST_LANES, samples) for samples in (BYTE_ROWS, FLOAT_ROWS, SEPARATE)),
    ],
)
def test_the_vendors_model_equals_simulator_and_evaluation(
    chip: str, samples: Mapping[str, Sample], thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    registry = Registry()
    compiled = compile_kernels(chosen(samples, thorough), chip, registry)
    path = tmp_path / "kernels.cvimodel"
    path.write_bytes(compiled.data)
    inputs = {name: array.view("u2") if array.dtype.itemsize == 2 else array for name, array in compiled.inputs.items()}
    vendor = run_vendor(path, inputs)
    check_steps(compiled.module, {**vendor, **compiled.inputs})
    assert_same_bits(registry.get("tpuc.chips", chip).load(compiled.data, "kernels").run(compiled.inputs), vendor)
