"""The cheapest way to compile a network that meets an accuracy constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuc.api import Module, Unsupported
from tpuc_driver.api.accuracy import OpenedMeasure

SAME_WAY_DOWN = 2
"""Cheaper networks that are tried below one that is accurate enough: accuracy does not quite fall with cost."""


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
class Tried:
    """What became of a form. `held_out` is the figure on samples held out; None where nobody asked."""

    form: Form
    cycles: int
    accuracy: float
    held_out: float | None = None


@dataclass
class Promise:
    """Compiles and measures forms until one has at least the figure `least`, and `least_held_out` on samples held out,
    or there one sample less: so few cannot say more. At most `most` are tried.
    """

    compile: Callable[[Form], tuple[Module, int]]
    measure: OpenedMeasure
    least: float
    least_held_out: float
    most: int
    tried: list[Tried] = field(default_factory=list[Tried])

    @property
    def left(self) -> int:
        """How many may still be tried."""
        return self.most - len(self.tried)

    def attempt(self, form: Form) -> Tried | None:
        """Compile and measure; on samples held out only what was good enough on the others. None for what the chip
        cannot compile, or when enough was tried.
        """
        if not self.left:
            return None
        try:
            module, cycles = self.compile(form)
        except Unsupported:
            return None
        found = Tried(form, cycles, self.measure.of(module))
        if found.accuracy >= self.least and self.measure.held_out:
            found = Tried(form, cycles, found.accuracy, self.measure.of(module, held_out=True))
        self.tried.append(found)
        return found

    def is_met(self, tried: Tried | None) -> bool:
        """Was it compiled, and is it accurate enough?"""
        if tried is None or tried.accuracy < self.least:
            return False
        return tried.held_out is None or tried.held_out >= self.least_held_out - 1 / self.measure.held_out

    def kept(self) -> Tried | None:
        """The cheapest that is accurate enough, the first of equals."""
        return min(filter(self.is_met, self.tried), key=lambda one: one.cycles, default=None)

    def best(self) -> Tried:
        """The most accurate, the cheapest of equals."""
        return max(self.tried, key=lambda one: (self._pooled(one), -one.cycles))

    def _pooled(self, tried: Tried) -> float:
        """Over all samples that it was measured on."""
        if tried.held_out is None:
            return tried.accuracy
        seen, apart = self.measure.samples, self.measure.held_out
        return (seen * tried.accuracy + apart * tried.held_out) / (seen + apart)

    def first_met(self, forms: Iterator[Form]) -> Tried | None:
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
            if failed == SAME_WAY_DOWN or not self.left:
                break
            if place not in seen and not self.is_met(self.attempt(forms[place])):
                failed += 1
