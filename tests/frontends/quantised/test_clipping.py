"""Networks whose QuantizeLinear clips, by random choice of ops, shapes, types and ranges: values are ONNX Runtime's.

Chips without zero points hold some values in steps of up to twice the stated ones, and compute what has no integer
form with bf16, whose eight bits say values beyond a range more coarsely.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tpuc.registry import Registry

from tests.frontends.quantised.clipped import Off, judged
from tests.frontends.quantised.clipping import MAKERS, draw_cases

CHAINS = 8
"""In one network."""
EXACT = 1.01
"""Steps on chips with zero points and f32."""
COARSE, USUAL = 5.01, 2.01
"""Steps on the others: for all but one of two hundred values twice a step, which theirs may be twice as large as, and
at most what bf16 leaves of sums that cancel and of values far beyond a range.
"""
KNOWN_REFUSALS = ("quantize the network again with a larger range",)


def beyond(chip: str, seeds: range, folder: Path) -> tuple[list[Off], list[Off]]:
    """All stated values of some networks, and those that are further off than the chip may be."""
    description = Registry().get("tpuc.chips", chip).description
    is_exact = "int8-asym" in description.modes
    found = [off for seed in seeds for off in judged(draw_cases(seed, CHAINS), chip, folder / "network.onnx")]
    refused = [off for off in found if off.refused]
    unknown = [off for off in refused if not any(words in off.refused for words in KNOWN_REFUSALS)]
    values = [off for off in found if not off.refused]
    far = [off for off in values if off.steps > (EXACT if is_exact else USUAL)]
    if not is_exact and len(far) <= len(values) / 200:
        far = [off for off in far if off.steps > COARSE]
    return values, [*unknown, *far]


@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x")])
def test_clipped_values_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    values, wrong = beyond(chip, range(5), tmp_path)
    assert len(values) > 80
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "chip",
    [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "c", "cv180x", "cv181x", "cv183x")],
)
def test_two_thousand_networks_clip_as_the_runtime_does(chip: str, tmp_path: Path) -> None:
    values, wrong = beyond(chip, range(1000, 1000 + 2000 // CHAINS), tmp_path)
    counts = Counter(off.op for off in values)
    assert set(counts) >= {*MAKERS, "input"}
    assert not wrong
