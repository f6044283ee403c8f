"""Find the cheapest form of a network that meets an accuracy constraint."""

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
    """A way to compile a network: a TOP module with its table, the `preparation` that made both, and the modes of
    single ops.
    """

    preparation: str
    module: Module
    table: Any
    modes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of a form. `held_out` is its accuracy on held-out samples, and `interval` the confidence interval;
    None where it was not measured.
    """

    form: Form
    cycles: int
    accuracy: float
    held_out: float | None = None
    interval: tuple[float, float] | None = None


@dataclass
class AccuracyConstraint:
    """Compiles and measures forms, at most `most`, until one reaches `least`. On samples that the search has not seen,
    the lower end of the confidence interval must then reach `least_held_out`, or the point estimate with
    `point_estimate`. `paired`: `least_held_out` is relative to the float network's accuracy.
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
    """Networks that are accurate enough in the search but not on held-out samples."""

    @property
    def left(self) -> int:
        """The number of remaining trials."""
        return self.most - len(self.tried)

    def attempt(self, form: Form) -> Evaluated | None:
        """Compile a form and measure it on the samples of the search. None if the chip cannot compile it, or no trials
        remain.
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
        """True if it compiled, is accurate enough in the search, and has not been refuted since."""
        return (
            tried is not None and tried.accuracy >= self.least and all(tried.form != one.form for one in self.refuted)
        )

    def confirmed(self) -> Evaluated | None:
        """The cheapest network that is accurate enough in the search and on held-out samples.

        Only few networks are tested on these: the cheapest ones, and last the most accurate one. The k-th test requires
        a confidence of 1 - 0.05 / k, since chance has had k tries: three together err in at most 9 %.
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
        """The evaluation with its accuracy on held-out samples, if there are any."""
        if not self.measure.held_out:
            return tried
        figure = self.measure.of(self.compile(tried.form)[0], held_out=True)
        return replace(tried, held_out=figure, interval=self.measure.interval(figure, CONFIDENCE, paired=self.paired))

    def _holds(self, checked: Evaluated) -> bool:
        """The test on held-out samples, run at once while the measure still has the network's results."""
        if checked.held_out is None or self.point_estimate:
            return checked.held_out is None or checked.held_out >= self.least_held_out
        confidence = 1 - (1 - CONFIDENCE) / (len(self.refuted) + 1)
        return self.measure.interval(checked.held_out, confidence, paired=self.paired)[0] >= self.least_held_out

    def best(self) -> Evaluated:
        """The most accurate on the samples of the search, the cheapest of equals."""
        return max(self.tried, key=lambda one: (one.accuracy, -one.cycles))

    def first_met(self, forms: Iterator[Form]) -> Evaluated | None:
        """The first form that is accurate enough; later ones are not created."""
        for form in forms:
            found = self.attempt(form)
            if found is not None and self.is_met(found):
                return found
        return None

    def cheapest(self, forms: Sequence[Form]) -> None:
        """Find the cheapest of forms ordered by falling loss and rising cost: by bisection, then one by one below."""
        low, high = 0, len(forms)
        probed: set[int] = set()
        while low < high and self.left:
            middle = (low + high) // 2
            probed.add(middle)
            if self.is_met(self.attempt(forms[middle])):
                high = middle
            else:
                low = middle + 1
        failed = 0
        for place in range(high - 1, -1, -1):
            if failed == self.budget.worse_below or not self.left:
                break
            if place not in probed and not self.is_met(self.attempt(forms[place])):
                failed += 1
