"""Trained networks keep their decisions in int8, also in forms that mean the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.work import one_blas_thread

from tests.families import each
from tests.models.decisions import deciding
from tests.models.rows import calibrate, load, lower, run
from tests.passes.calibration.stress import VARIANTS, Stressed

CHIPS = ("bm1684x", "cv183x")
ONE_IN = 60
"""Decisions, of which one may be lost."""
KEPT = {
    "mnist": ("plain", "far-no", "tiny-output", "dead-branch", "huge-output", "unlike-channels"),
    "blazeface": ("plain", "far-no", "tiny-output", "dead-branch", "huge-output", "unlike-channels", "joined-outputs"),
    "mtcnn_det3": ("plain", "far-no", "tiny-output", "dead-branch", "huge-output", "unlike-channels", "joined-outputs"),
}
QUICK = (("mnist", "plain"), ("mnist", "dead-branch"))
Make = Callable[[str, str], tuple[Stressed, Any]]


@pytest.fixture(scope="module")
def stressed(model_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A network in another form with its table, made when it is first asked for."""

    @functools.cache
    def make(name: str, variant: str) -> tuple[Stressed, Any]:
        row = deciding(name, model_data / "data").row
        form = VARIANTS[variant](load(row, model_data), row.calibration(model_data / "data"))
        assert form is not None
        with one_blas_thread():
            return form, calibrate(row, form.module, model_data, tmp_path_factory.mktemp(name))

    return make


def _cases() -> list[Any]:
    pairs = [(name, variant) for name, variants in KEPT.items() for variant in variants]
    return [
        pytest.param(*pair, chip, marks=[pytest.mark.chip(chip), *([] if pair in QUICK else [pytest.mark.slow])])
        for pair in pairs
        for chip in CHIPS
    ]


@each(("name", "variant", "chip"), _cases())
def test_decisions_are_kept(name: str, variant: str, chip: str, model_data: Path, stressed: Make) -> None:
    one = deciding(name, model_data / "data")
    samples = one.row.samples(model_data / "data")
    form, table = stressed(name, variant)
    results: list[list[Any]] = []
    with one_blas_thread():
        plain = Stressed(load(one.row, model_data))
        for outer, module in ((plain, plain.module), (form, lower(form.module, chip, table))):
            names = Interpreter(module).output_names
            results.append([outer.restore([values[key] for key in names]) for values in run(module, [], samples)])
    same, total = one.agreement(*results)
    assert total - same <= max(1, total // ONE_IN), f"{total - same} of {total} decisions are lost"
