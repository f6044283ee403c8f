"""Hill climb from the greedy plan: take the buffers at the peak and some of their neighbours out, and put them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

import numpy as np

from tpuc_passes.planning.planners.base import Packed, PackingPlanner
from tpuc_passes.planning.planners.greedy import GREEDY
from tpuc_passes.planning.planners.orders import ORDERS
from tpuc_passes.planning.planners.packing import Packing, Placed


@dataclass(frozen=True)
class HillClimb(PackingPlanner):
    """Climbs from several greedy plans share half of `moves`, the one that came lowest goes on with the other half.

    A budget of moves, never of seconds, so that the same network gives the same file on every machine.
    """

    name = "hill-climb"
    moves: int = 24_000
    starts: int = 3
    seed: int = 1

    def pack(self, packing: Packing, limit: int | None) -> Packed:
        """See PackingPlanner."""
        start = GREEDY.pack(packing, limit)
        if start.proven or not self.moves:
            return start
        plans = {tuple(fit(order(packing))): None for fit in (packing.first_fit, packing.best_fit) for order in ORDERS}
        lowest = sorted(plans, key=packing.peak)[: self.starts]
        climbs = [_Climb(packing, list(plan), self.seed + number) for number, plan in enumerate(lowest)]
        for climb in climbs:
            climb.run(self.moves // 2 // len(climbs))
            if climb.peak <= packing.bound:
                return Packed(climb.best, proven=True)
        climb = min(climbs, key=lambda one: one.peak)
        climb.run(self.moves - self.moves // 2)
        return Packed(climb.best, proven=climb.peak <= packing.bound)


class _Climb:
    """One climb. The cost of a plan is by how much its buffers, each on its own, reach above the target."""

    REMOVED: ClassVar[int] = 24
    """At most this many buffers leave at once, beside the one at the peak."""
    STEP: ClassVar[float] = 0.99
    """The next target, in parts of the peak reached."""
    WORSE: ClassVar[float] = 0.05
    """A move may cost up to this part of the target; small losses are far more likely than large ones."""

    def __init__(self, packing: Packing, offsets: list[int], seed: int) -> None:
        self.packing = packing
        self.placed = Placed(packing)
        for member, offset in enumerate(offsets):
            self.placed.put(member, offset)
        self.best = offsets
        self.peak = packing.peak(offsets)
        # A fixed table of random numbers, walked in a circle: drawing them one by one would cost as much as the moves.
        self._random = cycle(np.random.default_rng(seed).random(65_521).tolist())
        self.target = self._next_target()

    def run(self, moves: int) -> None:
        """Climb; leaves the best plan in `best`."""
        ends = self.placed.ends
        for _ in range(moves):
            high = [member for member, end in enumerate(ends) if end > self.target]
            while not high:
                self.peak, self.best = max(ends), list(self.placed.offsets)
                if self.peak <= self.packing.bound:
                    return
                self.target = self._next_target()
                high = [member for member, end in enumerate(ends) if end > self.target]
            self._move(high)

    def _next_target(self) -> int:
        return max(self.packing.bound, min(int(self.peak * self.STEP), self.peak - 1))

    def _move(self, high: Sequence[int]) -> None:
        random, placed = self._random, self.placed
        removed = self._choose(high[int(next(random) * len(high))])
        before = [(member, placed.offsets[member]) for member in removed]
        old = self._cost(removed)
        for member in removed:
            placed.offsets[member] = -1
        for member in self._shuffled(removed):
            placed.put(member, placed.lowest(member))
        if self._cost(removed) - old > self.WORSE * self.target * next(random) ** 4:
            for member, offset in before:
                placed.put(member, offset)

    def _cost(self, members: Sequence[int]) -> int:
        return sum(max(0, self.placed.ends[member] - self.target) for member in members)

    def _choose(self, top: int) -> list[int]:
        """The buffer at the peak and buffers reached from it along conflicts."""
        random, conflicts = self._random, self.packing.conflicts
        removed = {top: None}
        pool = conflicts[top]
        for _ in range(2 + int(next(random) * self.REMOVED)):
            if not pool:
                break
            member = pool[int(next(random) * len(pool))]
            removed[member] = None
            if next(random) < 0.3:
                pool = conflicts[member]
        return list(removed)

    def _shuffled(self, members: Sequence[int]) -> list[int]:
        """Roughly by size, roughly by area, or with the buffer at the peak first."""
        random, packing = self._random, self.packing
        kind = next(random)
        if kind >= 0.8:
            return list(members)
        weights = {
            member: packing.sizes[member] * (1 if kind < 0.5 else 1 + len(packing.conflicts[member]))
            for member in members
        }
        keys = {member: -weight * (0.5 + next(random)) for member, weight in weights.items()}
        return sorted(members, key=lambda member: keys[member])


HILL_CLIMB = HillClimb()
