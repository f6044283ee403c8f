"""Modes take turns without losing a case, or a mode of a kind."""

from __future__ import annotations

from tests.turns import due, few_pairs, first_few, in_turn, one_of_each, quick_pairs, runs_in_turn, single_pairs

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


def test_every_case_runs_in_floats_and_in_integers() -> None:
    runs = [("one", "f32"), ("one", "int8"), ("two", "int8-asym"), ("two", "f16")]
    parameters = runs_in_turn(("a", "b", "c"), runs)
    assert len(parameters) == 12
    quick = {parameter.values for parameter in parameters if [mark.name for mark in parameter.marks] == ["chip"]}
    assert quick == {
        *(("a", "one", "int8"), ("b", "two", "int8-asym"), ("c", "one", "int8")),
        *(("a", "one", "f32"), ("b", "two", "f16"), ("c", "one", "f32")),
    }


def test_few_pairs_have_the_first_and_the_last_case_of_every_kind() -> None:
    pairs = few_pairs(CASES, MODES, lambda kind: kind)
    assert pairs == {("add", "f32"), ("add_wide", "int8"), ("conv", "f16"), ("pool", "f32")}
    parameters = in_turn(CASES, MODES, lambda kind: kind, few_pairs)
    assert len(parameters) == len(CASES) * len(MODES)
    assert {parameter.values for parameter in parameters if not parameter.marks} == pairs


def test_single_pairs_have_the_first_or_the_last_case_of_every_kind() -> None:
    kinds = {"a": 0, "b": 0, "c": 1, "d": 2, "e": 2, "f": 3, "g": 3, "h": 3}
    assert single_pairs(kinds, ("x", "y"), int) == {("a", "x"), ("c", "y"), ("e", "x"), ("h", "y")}


def test_all_but_the_first_are_slow() -> None:
    found = {parameter.values[0]: [mark.name for mark in parameter.marks] for parameter in one_of_each(CASES, str)}
    assert found == {"add": [], "add_far": ["slow"], "add_wide": ["slow"], "conv": [], "pool": ["slow"]}
    assert [len(parameter.marks) for parameter in first_few("abcd", 3)] == [0, 0, 0, 1]


def test_every_case_has_its_turn_in_one_mode_of_two_and_in_two_of_more() -> None:
    for modes, times in ((("a", "b"), 1), (("a", "b", "c"), 2), (("a", "b", "c", "d", "e"), 2)):
        found = [name for mode in modes for name in due(CASES, modes, mode)]
        assert sorted(found) == sorted([*CASES] * times)
