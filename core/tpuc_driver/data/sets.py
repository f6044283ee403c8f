"""Combine several data sets into one, weighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tpuc.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class SampleSet:
    """Samples of a folder or of one file, each counted `weight` times."""

    path: Path
    weight: int = 1

    @staticmethod
    def of_text(text: str) -> SampleSet:
        """`faces/`, or `faces/=3`; raises UsageError for a weight below 1."""
        name, equals, weight = text.rpartition("=")
        if not equals or not weight.lstrip("-").isdigit() or Path(text).exists():
            return SampleSet(Path(text))
        if int(weight) < 1:
            raise UsageError(f"data set '{name}' has weight {weight}; give a whole number from 1, or leave it out.")
        return SampleSet(Path(name), int(weight))

    def text(self) -> str:
        """As `of_text` reads it."""
        return f"{self.path}={self.weight}" if self.weight > 1 else f"{self.path}"


def sets_of(dataset: Path | Sequence[SampleSet] | None) -> tuple[SampleSet, ...]:
    """A list of data sets, also for a single one."""
    if dataset is None:
        return ()
    return (SampleSet(dataset),) if isinstance(dataset, Path) else tuple(dataset)


def interleaved(sets: Sequence[Sequence[T]], weights: Sequence[int]) -> tuple[T, ...]:
    """All items of all sets, each repeated by its set's weight, every set spread evenly over the whole."""
    placed = [
        (((index + 0.5) / len(items) + copy / weight) % 1.0, number, copy, index)
        for number, (items, weight) in enumerate(zip(sets, weights, strict=True))
        for copy in range(weight)
        for index in range(len(items))
    ]
    return tuple(sets[number][index] for _, number, _, index in sorted(placed))
