"""Modes that take turns: of many cases in many modes the quick run takes each case once, and each mode of each kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")
Pairs: TypeAlias = Callable[
    [Mapping[str, T], Sequence[str], Callable[[T], Hashable]],
    frozenset[tuple[str, str]],
]
"""Chooses names of cases with a mode."""


def _by_kind(cases: Mapping[str, T], kind: Callable[[T], Hashable]) -> dict[Hashable, list[str]]:
    kinds: dict[Hashable, list[str]] = {}
    for name, case in cases.items():
        kinds.setdefault(kind(case), []).append(name)
    return kinds


def quick_pairs(
    cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable]
) -> frozenset[tuple[str, str]]:
    """Names of cases with a mode: every case has one, and every mode some case of each kind."""
    kinds = _by_kind(cases, kind)
    return frozenset(
        (names[turn % len(names)], modes[turn % len(modes)])
        for names in kinds.values()
        for turn in range(max(len(names), len(modes)))
    )


def few_pairs(
    cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable]
) -> frozenset[tuple[str, str]]:
    """Names of cases with a mode: of every kind the first case and the last, in modes far apart, which take turns."""
    kinds = _by_kind(cases, kind)
    return frozenset(
        (names[place], modes[(turn + far) % len(modes)])
        for turn, names in enumerate(kinds.values())
        for place, far in ((0, 0), (-1, (len(modes) + 1) // 2))
    )


def single_pairs(
    cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable]
) -> frozenset[tuple[str, str]]:
    """Names of cases with a mode: of every kind the first case or the last, which take turns as the modes do."""
    kinds = _by_kind(cases, kind)
    return frozenset(
        (names[-(turn // len(modes) % 2)], modes[turn % len(modes)]) for turn, names in enumerate(kinds.values())
    )


def due(cases: Mapping[str, T], modes: Sequence[str], mode: str) -> dict[str, T]:
    """The cases whose turn it is in a mode. Each has its turn in one mode of two, and of more in two far apart."""
    place, count = modes.index(mode), len(modes)
    far = (count + 1) // 2 if count > 2 else 0
    return {
        name: case for turn, (name, case) in enumerate(cases.items()) if place in (turn % count, (turn + far) % count)
    }


def in_turn(
    cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable], pairs: Pairs[T] = quick_pairs
) -> list[ParameterSet]:
    """Every case in every mode; all but some pairs are slow."""
    quick = pairs(cases, modes, kind)
    return [
        pytest.param(name, mode, marks=() if (name, mode) in quick else pytest.mark.slow, id=f"{name}-{mode}")
        for name in cases
        for mode in modes
    ]


def one_of_each(cases: Mapping[str, T], kind: Callable[[T], Hashable]) -> list[ParameterSet]:
    """Every case; all but the first of each kind are slow."""
    first = {kind(cases[name]): name for name in reversed([*cases])}
    return [pytest.param(name, marks=() if first[kind(cases[name])] == name else pytest.mark.slow) for name in cases]


def first_few(values: Iterable[Any], count: int) -> list[ParameterSet]:
    """Every value; all but the first ones are slow."""
    return [pytest.param(one, marks=pytest.mark.slow if at >= count else ()) for at, one in enumerate(values)]


def runs_in_turn(cases: Collection[str], runs: Sequence[tuple[str, str]]) -> list[ParameterSet]:
    """Every case on every chip in every mode; quick is each case once in floats and once in integers."""
    names = {name: name for name in cases}
    modes = {f"{chip}-{mode}": (chip, mode) for chip, mode in runs}
    integers = [run for run, (_, mode) in modes.items() if mode.startswith("int8")]
    floats = [run for run in modes if run not in integers]
    quick = {pair for some in (integers, floats) for pair in quick_pairs(names, some, lambda _: "case")}
    return [
        pytest.param(
            *(name, *modes[run]),
            marks=[pytest.mark.chip(modes[run][0]), *([] if (name, run) in quick else [pytest.mark.slow])],
            id=f"{name}-{run}",
        )
        for name in cases
        for run in modes
    ]
