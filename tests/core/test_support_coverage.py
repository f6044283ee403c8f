"""Cells of a support table without a test case."""

from __future__ import annotations

import pytest
from tpuc.registry import Registry
from tpuc_ops import top
from tpuc_testing.coverage import uncovered

_MEAN = top.Reduce(axes=(1,), mode="ReduceMean")


CHIPS = Registry().names("tpuc.chips")[:1]


@pytest.mark.parametrize("chip", CHIPS)
def test_what_no_case_shows_is_listed(chip: str) -> None:
    mode = Registry().get("tpuc.chips", chip).description.modes[0]
    missing = uncovered(
        chip, {mode: [top.GELU(), top.Sigmoid(), top.Sigmoid(log=True), top.Permute(order=(0, 1)), _MEAN]}, Registry()
    )
    assert f"top.GELU {mode}: no case with an attribute other than the usual one" in missing
    assert f"top.Reduce {mode}: no case with an attribute other than the usual one" in missing
    assert not any("top.Sigmoid" in sentence or "top.Permute" in sentence for sentence in missing)
    assert f"top.Conv {mode}: no case" in missing


@pytest.mark.parametrize("chip", CHIPS)
def test_another_attribute_or_two_cases_that_differ_cover(chip: str) -> None:
    mode = Registry().get("tpuc.chips", chip).description.modes[0]
    cases = [top.GELU(approx_mode="tanh"), _MEAN, top.Reduce(axes=(2,), mode="ReduceMax")]
    missing = uncovered(chip, {mode: cases}, Registry())
    assert not any("top.GELU" in sentence or "top.Reduce" in sentence for sentence in missing)
