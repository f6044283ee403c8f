"""The cheapest way to compile a network that meets an accuracy constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tpuc.api import Module, Unsupported
from tpuc_driver.api.accuracy import OpenedMeasure
from tpuc_driver.api.host import CONFIDENCE

from tpuc_accuracy.mixed_precision.options import ConstraintBudget


@dataclass(frozen=True)
class Form:
    """A way to compile a network: a TOP module with its table, `preparation` says how both were made, and the modes of
    single ops.
    """

    preparation: str
    module: Module
    table: Any
    modes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Evaluated:
    """What became of a form. `held_out` is the figure on held-out samples, and `interval` where it lies; None where it
    was not measured there.
    """

    form: Form
    cycles: int
    accuracy: float
    held_out: float | None = None
    interval: tuple[float, float] | None = None


@dataclass
class AccuracyConstraint:
    """Compiles and measures forms until one has at least the figure `least`; at most `most` are tried. Then, on samples
    that the search has not seen, the lower end of the figure's interval must be `least_held_out`, or the figure itself
    with `point_estimate`. `paired`: `least_held_out` is relative to the float network's figure.
    """

    compile: Callable[[Form], tuple[Module, int]]
    measure: OpenedMeasure
    least: float
    least_held_out: float
    most: int
    paired: bool
    point_estimate: bool = False
    budget: ConstraintBudget = field(default_factory=ConstraintBudget)
    tried: list[Evaluated] = field(default_factory=list[Evaluated])
    refuted: list[Evaluated] = field(default_factory=list[Evaluated])
    """Accurate enough in the search, and not on held-out samples."""

    @property
    def left(self) -> int:
        """How many may still be tried."""
        return self.most - len(self.tried)

    def attempt(self, form: Form) -> Evaluated | None:
        """Compile, and measure on the samples of the search. None for what the chip cannot compile, or when enough was
        tried.
        """
        if not self.left:
            return None
        try:
            module, cycles = self.compile(form)
        except Unsupported:
            return None
        found = Evaluated(form, cycles, self.measure.of(module))
        self.tried.append(found)
        return found

    def is_met(self, tried: Evaluated | None) -> bool:
        """Was it compiled, is it accurate enough in the search, and not refuted since?"""
        return (
            tried is not None and tried.accuracy >= self.least and all(tried.form != one.form for one in self.refuted)
        )

    def confirmed(self) -> Evaluated | None:
        """The cheapest network that is accurate enough in the search and on held-out samples.

        These are asked about few networks: the cheapest ones, and the last time about the surest. The k-th one must
        hold with a confidence of 1 - 0.05 / k, since chance has had k tries: three together err in at most 9 %.
        """
        while len(self.refuted) < self.budget.most_confirmed:
            found = list(filter(self.is_met, self.tried))
            if not found:
                return None
            is_last = len(self.refuted) == self.budget.most_confirmed - 1
            surest = max(found, key=lambda one: (one.accuracy, one.cycles))
            checked = self._checked(surest if is_last else min(found, key=lambda one: one.cycles))
            if self._holds(checked):
                return checked
            self.refuted.append(checked)
        return None

    def _checked(self, tried: Evaluated) -> Evaluated:
        """With its figure on held-out samples, if there are any."""
        if not self.measure.held_out:
            return tried
        figure = self.measure.of(self.compile(tried.form)[0], held_out=True)
        return replace(tried, held_out=figure, interval=self.measure.interval(figure, CONFIDENCE, paired=self.paired))

    def _holds(self, checked: Evaluated) -> bool:
        """Asked at once, while the measure still has what it found of the network."""
        if checked.held_out is None or self.point_estimate:
            return checked.held_out is None or checked.held_out >= self.least_held_out
        confidence = 1 - (1 - CONFIDENCE) / (len(self.refuted) + 1)
        return self.measure.interval(checked.held_out, confidence, paired=self.paired)[0] >= self.least_held_out

    def best(self) -> Evaluated:
        """The most accurate on the samples of the search, the cheapest of equals."""
        return max(self.tried, key=lambda one: (one.accuracy, -one.cycles))

    def first_met(self, forms: Iterator[Form]) -> Evaluated | None:
        """The first that is accurate enough; those behind it are not made."""
        for form in forms:
            found = self.attempt(form)
            if found is not None and self.is_met(found):
                return found
        return None

    def cheapest(self, forms: Sequence[Form]) -> None:
        """Look for the cheapest of forms that lose less the more they cost: by halves, then one by one below."""
        low, high = 0, len(forms)
        seen: set[int] = set()
        while low < high and self.left:
            middle = (low + high) // 2
            seen.add(middle)
            if self.is_met(self.attempt(forms[middle])):
                high = middle
            else:
                low = middle + 1
        failed = 0
        for place in range(high - 1, -1, -1):
            if failed == self.budget.worse_below or not self.left:
                break
            if place not in seen and not self.is_met(self.attempt(forms[place])):
                failed += 1
