"""The origin of a calibration table: every stage that decided a threshold, and the race of its candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from tpuc.api import CalibrationError


@dataclass(frozen=True)
class Stage:
    """One stage that decides thresholds, with the thresholds after it for the values that it decides."""

    place: str
    thresholds: Mapping[str, float]


class Change(NamedTuple):
    """The effect of one stage on a value's threshold; `before` is None at the first one."""

    place: str
    before: float | None
    after: float


@dataclass(frozen=True)
class Entrant:
    """One candidate of a round: its proposer, the network evaluations spent on it, and its score."""

    proposer: str
    name: str
    runs: int
    score: str
    selected: bool = False


@dataclass(frozen=True)
class Round:
    """Candidates compared with each other, in order of evaluation, the selection rule, and the budget of each."""

    name: str
    rule: str
    budget: str
    entrants: tuple[Entrant, ...]


@dataclass(frozen=True)
class Origin:
    """The stages that a table went through, in order, and the rounds of its race."""

    stages: tuple[Stage, ...] = ()
    rounds: tuple[Round, ...] = ()

    def history(self, value: str) -> tuple[Change, ...]:
        """The effect of each stage on a value's threshold, in order, including stages that kept it."""
        return tuple(self._changes(value))

    def _changes(self, value: str) -> Iterator[Change]:
        before: float | None = None
        for stage in self.stages:
            if (after := stage.thresholds.get(value)) is not None:
                yield Change(stage.place, before, after)
                before = after

    def explain(self, value: str = "") -> str:
        """The history of a value's threshold as text, or the race where no value is named."""
        return "\n".join(self._history_lines(value) if value else self._race_lines())

    def _history_lines(self, value: str) -> Iterator[str]:
        changes = self.history(value)
        if not changes:
            names = sorted({name for stage in self.stages for name in stage.thresholds})
            close = get_close_matches(value, names, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "names are those of the calibration table"
            raise CalibrationError(f"no value '{value}' has a threshold; {hint}")
        last = next((one for one in reversed(changes) if one.before != one.after), changes[0])
        yield f"{value}: threshold {changes[-1].after:.7g}, decided by: {last.place}"
        width = max(len(one.place) for one in changes)
        for one in changes:
            made = "kept" if one.before == one.after else f"{one.after:.7g}"
            before = "" if one.before is None else f"{one.before:.7g}"
            yield f"  {one.place:<{width}}  {before:>12} -> {made}"

    def _race_lines(self) -> Iterator[str]:
        if not self.rounds:
            yield "no candidates were compared: thresholds are those of the method"
        for one in self.rounds:
            yield f"{one.name}: selects {one.rule}; budget: {one.budget}"
            rows = [(each.proposer, each.name, f"{each.runs} runs", each.score) for each in one.entrants]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for each, row in zip(one.entrants, rows, strict=True):
                shown = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
                yield f"  {'*' if each.selected else ' '} {shown.rstrip()}"
