"""Assign colors to layers: few, distinct, and never equal side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tpuc.api import Engine

from tpuc_profile.analysis import Analysis

PALETTE = (
    *("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7"),
    *("#a463f2", "#97bbf5", "#b58863", "#9498a0", "#c2d04a", "#2b9fc4"),
)
"""Colors that are visible on light and dark backgrounds."""


def colors_of(analysis: Analysis) -> list[int]:
    """Return a palette index for each step, different from its neighbors': the layers before and after it, and those
    whose commands are next to its own on an engine. If several are free, they take turns.
    """
    beside = _neighbors(analysis)
    colors: list[int] = []
    for step in range(len(analysis.steps)):
        taken = Counter[int]()
        for other, times in beside[step].items():
            if other < step:
                taken[colors[other]] += times
        first = colors[-1] + 1 if colors else 0
        turn = [(first + number) % len(PALETTE) for number in range(len(PALETTE))]
        colors.append(min(turn, key=lambda color: taken[color]))
    return colors


def _neighbors(analysis: Analysis) -> list[Counter[int]]:
    """Count, for each step, how often others are next to it."""
    beside = [Counter[int]() for _ in analysis.steps]

    def meet(steps: Sequence[int]) -> None:
        for one, other in pairwise(steps):
            if one != other:
                beside[one][other] += 1
                beside[other][one] += 1

    meet([number for number, step in enumerate(analysis.steps) if step.commands])
    together = [*zip(analysis.timeline.entries, analysis.steps_of, strict=True)]
    for engine in Engine:
        meet([step for entry, step in together if entry.command.engine is engine])
    return beside
