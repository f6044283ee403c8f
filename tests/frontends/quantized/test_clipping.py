"""Networks whose QuantizeLinear clips, by random choice of ops, shapes, types and ranges: values are ONNX Runtime's.

Chips without zero points hold some values in steps of up to twice the stated ones, and compute what has no integer
form with bf16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from tpuc.registry import Registry

from tests.families import each
from tests.frontends.quantized.clipped import Off, judged
from tests.frontends.quantized.clipping import MAKERS, draw_cases

CHAINS = 8
"""In one network."""
EXACT = 1.01
"""Steps on chips with zero points and f32."""
GATED = ("GlobalAveragePool", "ReduceMean", "HardSigmoid", "Sigmoid", "Mul", "Mul", "Add", "Sub", "Relu", "Conv")
"""Ops of gates and residuals."""
CHIPS = ("bm1684x", "cv186x", "c", "cv180x", "cv181x", "cv183x")
KNOWN_REFUSALS = ("quantize the network again with a larger range",)


def most(off: Off, *, is_exact: bool) -> float:
    """On chips without zero points half of the chip's own step more than one of the network's, since theirs may be
    twice as large: the network's halves are rounded away from what the chip stores.
    """
    return EXACT if is_exact else EXACT + off.own / 2


def beyond(
    chip: str, seeds: Iterable[int], folder: Path, ops: Sequence[str] = tuple(MAKERS), *, mixed: bool = False
) -> tuple[list[Off], list[Off]]:
    """All stated values of some networks, and those that are further off than the chip may be."""
    is_exact = "int8-asym" in Registry().get("tpuc.chips", chip).description.modes
    drawn = (draw_cases(seed, CHAINS, ops, mixed=mixed) for seed in seeds)
    found = [off for cases in drawn for off in judged(cases, chip, folder / "network.onnx")]
    refused = [off for off in found if off.refused]
    unknown = [off for off in refused if not any(words in off.refused for words in KNOWN_REFUSALS)]
    values = [off for off in found if not off.refused]
    return values, [*unknown, *(off for off in values if off.steps > most(off, is_exact=is_exact))]


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x")])
def test_clipped_values_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    values, wrong = beyond(chip, range(5), tmp_path)
    assert len(values) > 80
    assert not wrong


@pytest.mark.chip("cv181x")
def test_resized_values_are_in_steps_of_the_result(tmp_path: Path) -> None:
    values, wrong = beyond("cv181x", (10, 103, 132, 142), tmp_path, ("Resize", "Resize to any extents"))
    assert all(sum(off.op == op for off in values) > 15 for op in ("Resize", "Resize to any extents"))
    assert not wrong


@pytest.mark.chip("cv181x")
def test_averages_without_padding_are_within_a_step(tmp_path: Path) -> None:
    """Seed 1094 has one whose bf16 roundings added up to two steps when averages were counted from the zero point."""
    values, wrong = beyond("cv181x", range(1094, 1095), tmp_path)
    assert any(off.op == "AveragePool" for off in values)
    assert not wrong


@pytest.mark.chip("cv181x")
def test_signs_that_differ_beside_each_other(tmp_path: Path) -> None:
    """Products, sums and gates of signed and unsigned bytes, with and without a zero point, in seeds that were
    refused.
    """
    values, wrong = beyond("cv181x", (0, 6, 15), tmp_path, GATED, mixed=True)
    assert all(sum(off.op == op for off in values) > 1 for op in ("Mul", "Add"))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_values_of_mixed_types_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    values, wrong = beyond(chip, range(1000, 1030), tmp_path, GATED, mixed=True)
    more, off = beyond(chip, range(2000, 2060), tmp_path, mixed=True)
    assert len(values) + len(more) > 2000
    assert wrong + off == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "chip",
    [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS],
)
def test_two_thousand_networks_clip_as_the_runtime_does(chip: str, tmp_path: Path) -> None:
    values, wrong = beyond(chip, range(1000, 1000 + 2000 // CHAINS), tmp_path)
    counts = Counter(off.op for off in values)
    assert set(counts) >= {*MAKERS, "input"}
    assert not wrong
