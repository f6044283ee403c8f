"""Modes take turns without losing a case, or a mode of a kind."""

from __future__ import annotations

from tests.turns import in_turn, quick_pairs

CASES = {"add": "sum", "add_far": "sum", "add_wide": "sum", "conv": "window", "pool": "window"}
MODES = ("f32", "f16", "int8")


def test_every_case_runs_and_every_mode_of_its_kind() -> None:
    pairs = quick_pairs(CASES, MODES, lambda kind: kind)
    assert pairs == {
        *(("add", "f32"), ("add_far", "f16"), ("add_wide", "int8")),
        *(("conv", "f32"), ("pool", "f16"), ("conv", "int8")),
    }
    assert quick_pairs({"a": 0, "b": 0, "c": 0}, ("x", "y"), int) == {("a", "x"), ("b", "y"), ("c", "x")}


def test_the_other_pairs_are_slow() -> None:
    parameters = in_turn(CASES, MODES, lambda kind: kind)
    assert len(parameters) == len(CASES) * len(MODES)
    quick = {parameter.values for parameter in parameters if not parameter.marks}
    assert quick == quick_pairs(CASES, MODES, lambda kind: kind)
