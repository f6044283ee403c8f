"""Runs of networks that differ in a few grids over the same samples: each begins where it differs from the last one
that was kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tpuc.api.host import Array, Pool

from tpuc_passes.accuracy.network import FakeNetwork, State

MARKS = 8
"""Places of a network where runs can begin."""
MARKED_ELEMENTS = 1 << 20
"""What is kept at each of them, at most: 4 MiB."""

_Marks = dict[int, list[State]]


@dataclass
class Resumed:
    """Values in the slots `keep` are kept, and outputs."""

    samples: Sequence[Mapping[str, Array]]
    pool: Pool
    keep: Collection[int]
    _kept: tuple[FakeNetwork, _Marks] | None = field(default=None, init=False)
    _last: tuple[FakeNetwork, _Marks] | None = field(default=None, init=False)

    def run(self, net: FakeNetwork) -> list[State]:
        """All ops on integers. The networks are of one module, with the same shifts of biases."""
        steps = len(net.plan.steps)
        marks = {} if self._kept is None else self._kept[1]
        same = self.first_difference(net)
        found = {place: states for place, states in marks.items() if place <= same}
        first = max(found, default=0)
        states = [one.copy() for one in found[first]] if first else net.start_all(self.samples)
        places = [place for mark in range(1, MARKS) if (place := steps * mark // MARKS) > first]
        for begin, end in pairwise(dict.fromkeys((first, *places, steps))):
            net.run_together(range(begin, end), states, self.pool, integer=True, keep=self.keep)
            if end < steps and _elements(net, states) <= MARKED_ELEMENTS:
                found[end] = [one.copy() for one in states]
        self._last = net, found
        return net.apart(states)

    def take(self) -> None:
        """Later runs begin where they differ from the last one."""
        self._kept = self._last

    def first_difference(self, net: FakeNetwork) -> int:
        """The first step that may give other values than in the network that was kept; their number if none does."""
        steps = net.plan.steps
        if self._kept is None:
            return 0
        other = self._kept[0].grids
        changed = {slot for slot, grid in net.grids.items() if grid != other[slot]}
        places = (index for index, step in enumerate(steps) if not changed.isdisjoint((*step.operands, *step.results)))
        return next(places, len(steps))


def _elements(net: FakeNetwork, states: Sequence[State]) -> int:
    return sum(
        array.size
        for state in states
        for slot, array in enumerate(state.values)
        if array is not None and slot not in net.constants
    )
