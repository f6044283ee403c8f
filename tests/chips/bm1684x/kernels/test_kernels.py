"""Every kernel against its op's evaluation, in the simulator, under the chosen and under forced tilings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.bm1684x.kernels import integer_sums, place_samples, samples, stated_sums
from tests.chips.bm1684x.kernels.generated import KINDS, generated
from tests.chips.few_samples import one_of_each
from tests.families import each

FIRST_FIT = 1
"""Most time goes into plans that join ops, of which kernels side by side have few; tilings are forced all the same."""
SUBJECTS = samples.ALL | integer_sums.ALL | stated_sums.ALL | place_samples.ALL


@each("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
@each("subject", SUBJECTS)
def test_the_simulator_equals_the_evaluation(subject: str, everything: bool) -> None:
    samples = SUBJECTS[subject]
    _check(samples, subject) if everything else _check(one_of_each(samples), subject, FIRST_FIT)


@each("count", [8, pytest.param(24, marks=pytest.mark.slow)])
@each("kind", KINDS)
def test_generated_samples_equal_the_evaluation(kind: str, count: int) -> None:
    _check(generated(kind, count), kind)


def _check(cases: Mapping[str, Sample], source: str, opt: int | None = None) -> None:
    registry = Registry()
    compiled = compile_kernels(cases, "bm1684x", registry, opt=opt)
    compiled.compare(registry.get("tpuc.chips", "bm1684x").load(compiled.data, source).run(compiled.inputs))
