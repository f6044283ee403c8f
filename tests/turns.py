"""Modes that take turns: of many cases in many modes the quick run takes each case once, and each mode of each kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def quick_pairs(
    cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable]
) -> frozenset[tuple[str, str]]:
    """Names of cases with a mode: every case has one, and every mode some case of each kind."""
    kinds: dict[Hashable, list[str]] = {}
    for name, case in cases.items():
        kinds.setdefault(kind(case), []).append(name)
    return frozenset(
        (names[turn % len(names)], modes[turn % len(modes)])
        for names in kinds.values()
        for turn in range(max(len(names), len(modes)))
    )


def in_turn(cases: Mapping[str, T], modes: Sequence[str], kind: Callable[[T], Hashable]) -> list[ParameterSet]:
    """Every case in every mode; all but the quick pairs are slow."""
    quick = quick_pairs(cases, modes, kind)
    return [
        pytest.param(name, mode, marks=() if (name, mode) in quick else pytest.mark.slow, id=f"{name}-{mode}")
        for name in cases
        for mode in modes
    ]
