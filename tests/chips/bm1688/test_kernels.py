"""Kernels of BM1684X on CV186x, with its lanes: the same samples, simulator against evaluation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.bm1684x.kernels.test_kernels import FIRST_FIT, SUBJECTS
from tests.chips.few_samples import one_of_each
from tests.families import each

CHIP = "cv186x"
TOO_LARGE = ("lut_wide_plane", "upsample_wide_slots", "upsample_wide_batches", "sums_long")
"""Samples with tiles, or an axis, for lanes of 256 KiB."""
OTHERS = ("rows", "logic", "order")
"""Subjects whose kernels the networks of the other tests have not."""


def fitting(subject: str) -> Mapping[str, Sample]:
    """The samples of a subject that fit lanes of 128 KiB."""
    return {name: sample for name, sample in SUBJECTS[subject].items() if name not in TOO_LARGE}


@each("subject", [*OTHERS, *(pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS if name not in OTHERS)])
def test_the_simulator_equals_the_evaluation(subject: str) -> None:
    samples = fitting(subject)
    registry = Registry()
    compiled = compile_kernels(one_of_each(samples) if subject in OTHERS else samples, CHIP, registry, opt=FIRST_FIT)
    compiled.compare(registry.get("tpuc.chips", CHIP).load(compiled.data, subject).run(compiled.inputs))
