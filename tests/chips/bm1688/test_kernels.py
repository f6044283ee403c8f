"""Kernels of BM1684X on CV186x, with its lanes: the same samples, simulator against evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.bm1684x.kernels.test_kernels import FIRST_FIT, SUBJECTS
from tests.chips.few_samples import one_of_each
from tests.chips.weight_only import CASES, network
from tests.families import each

CHIP = "cv186x"
HALF = 2**-10
"""Matrix, sums and result are rounded once each, relative to the largest result."""
TOO_LARGE = ("lut_wide_plane", "upsample_wide_slots", "upsample_wide_batches", "sums_long")
"""Samples with tiles, or an axis, for lanes of 256 KiB."""
OTHERS = ("rows", "logic", "order")
"""Subjects whose kernels the networks of the other tests have not."""


def fitting(subject: str) -> Mapping[str, Sample]:
    """The samples of a subject that fit lanes of 128 KiB."""
    return {name: sample for name, sample in SUBJECTS[subject].items() if name not in TOO_LARGE}


def test_products_with_narrow_integers_are_those_of_the_floats_that_they_mean(tmp_path: Path) -> None:
    """Depths that are whole vectors of a lane, and not."""
    cases = CASES[5:8]
    module, inputs, wanted = network(cases)
    session, kinds = Session(chip=CHIP, quantize="f16"), ("f16",) * len(cases)
    session.deploy(module, tmp_path / "m.bmodel", boundary=Boundary(input_types=kinds, output_types=kinds))
    file = session.opened(tmp_path / "m.bmodel")
    found = session.simulate(file.chip, file.container(0), inputs)
    for name, result in wanted.items():
        assert np.abs(found[name].astype("f4") - result).max() < HALF * np.abs(result).max(), name


@each("subject", [*OTHERS, *(pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS if name not in OTHERS)])
def test_the_simulator_equals_the_evaluation(subject: str) -> None:
    samples = fitting(subject)
    registry = Registry()
    compiled = compile_kernels(one_of_each(samples) if subject in OTHERS else samples, CHIP, registry, opt=FIRST_FIT)
    compiled.compare(registry.get("tpuc.chips", CHIP).load(compiled.data, subject).run(compiled.inputs))
