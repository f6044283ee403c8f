"""Masked scores as ONNX Runtime gives them, in every mode of every chip."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.chips.masked import LOWEST, Case, Masked, draw, errors
from tests.families import each

MOST = {"f32": 1e-3, "f16": 0.02, "bf16": 0.1, "int8": 0.4}
"""Of shares, and of other results as parts of the largest. Steps of the largest scores dominate int8."""
CHIP_MODES = [
    *((chip, mode) for chip in ("bm1684x", "cv186x") for mode in MOST),
    *((chip, mode) for chip in ("cv181x", "cv183x") for mode in ("bf16", "int8")),
    *(("c", mode) for mode in ("f32", "int8")),
]
TOGETHER, TESTS = 16, 12


def _wrong(chip: str, mode: str, seed: int, count: int, tests: int) -> Iterator[str]:
    """What is beyond the limit in a network of `count` cases on so many samples."""
    rng = np.random.default_rng(seed)
    cases = [draw(rng, number, chip) for number in range(count)]
    for case, error in errors(Masked(cases, seed), chip, mode, tests):
        if not error <= MOST[mode]:
            yield f"{chip} {mode}, seed {seed}: {error:.3f} in {case.shown()}"


@each(
    ("chip", "mode"),
    [
        pytest.param(chip, mode, marks=pytest.mark.chip(chip))
        for chip, mode in (("bm1684x", "f16"), ("bm1684x", "int8"), ("cv181x", "bf16"))
    ],
)
def test_a_few_masks(chip: str, mode: str) -> None:
    assert list(_wrong(chip, mode, seed=7, count=5, tests=2)) == []


@pytest.mark.chip("c")
def test_infinite_scores_calibrate_without_a_warning() -> None:
    """Two lowest numbers add up to an infinity, and logarithms of nothing are one."""
    forms = (
        ("two_inputs", LOWEST, "LogSoftmax"),
        ("constant", -np.inf, "LogSoftmax"),
        ("one_minus", LOWEST, "Softmax"),
    )
    cases = [
        Case(number, form, hide, end, (2, 5, 6), (5, 6), -1, "float32", False, 0.5, False)
        for number, (form, hide, end) in enumerate(forms)
    ]
    assert [
        text for case, off in errors(Masked(cases, 3), "c", "int8", 1, 8) if off > 0.1 for text in [case.shown()]
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chip", "mode"), [pytest.param(chip, mode, marks=pytest.mark.chip(chip)) for chip, mode in CHIP_MODES]
)
def test_two_thousand_masks(chip: str, mode: str) -> None:
    networks = -(-2000 // (TOGETHER * TESTS))
    assert [text for seed in range(networks) for text in _wrong(chip, mode, 1000 + seed, TOGETHER, TESTS)] == []
