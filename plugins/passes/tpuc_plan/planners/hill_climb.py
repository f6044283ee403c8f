"""Hill climbing from greedy plans: remove the buffers at the peak and some neighbors, and place them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import log
from typing import ClassVar

import numpy as np

from tpuc_plan.planners.base import Packed, PackingPlanner
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.planners.orders import ORDERS
from tpuc_plan.planners.packing import Packing, Placed


@dataclass(frozen=True)
class HillClimb(PackingPlanner):
    """Climb from the `starts` lowest greedy plans, which share `moves` moves; the lowest peak wins.

    The budget is in moves, not seconds, so the same network gives the same file on every machine.
    """

    name = "hill-climb"
    moves: int = 16_000
    starts: int = 1
    seed: int = 1

    def pack(self, packing: Packing, limit: int | None) -> Packed:
        """See PackingPlanner."""
        greedy = GREEDY.pack(packing, limit)
        if greedy.proven or not self.moves:
            return greedy
        plans = {tuple(fit(order(packing))): None for fit in (packing.first_fit, packing.best_fit) for order in ORDERS}
        lowest = sorted(plans, key=packing.peak)[: self.starts]
        best = list(lowest[0])
        for number, plan in enumerate(lowest):
            climb = _Climb(packing, list(plan), self.seed + number)
            climb.run(self.moves // len(lowest))
            best = min(best, climb.best, key=packing.peak)
            if packing.peak(best) <= packing.bound:
                return Packed(best, proven=True)
        return Packed(best)


class _Climb:
    """One climb. The cost of a plan is the sum of the bytes by which each buffer exceeds the target.

    A move that increases the cost is sometimes kept, early in the climb more often than late (simulated annealing).
    """

    REMOVED: ClassVar[int] = 24
    """At most one more than this many neighbors are removed with the buffer at the peak."""
    STEP: ClassVar[float] = 0.99
    """The next target, as a fraction of the peak reached."""
    WANDER: ClassVar[float] = 0.3
    """Probability that the next neighbor is drawn from the conflicts of the previous one, not from the same
    buffer's.
    """
    BY_SIZE, BY_AREA = 0.5, 0.8
    """Order of placing the buffers again: by size if a random number is below the first value, by area if it is below
    the second, else as drawn.
    """
    WARM, COLD = 0.03, 0.001
    """The temperature at the beginning and the end, as a fraction of the target."""

    def __init__(self, packing: Packing, offsets: list[int], seed: int) -> None:
        self.packing = packing
        self.placed = Placed(packing)
        for member, offset in enumerate(offsets):
            self.placed.put(member, offset)
        self.best = offsets
        self.peak = packing.peak(offsets)
        # A fixed table of random numbers, walked in a circle: drawing them one by one would cost as much as the moves.
        self._random = cycle((1.0 - np.random.default_rng(seed).random(65_521)).tolist())
        self.target = self._next_target()

    def run(self, moves: int) -> None:
        """Climb; leaves the best plan in `best`."""
        ends = self.placed.ends
        for number in range(moves):
            high = [member for member, end in enumerate(ends) if end > self.target]
            while not high:
                self.peak, self.best = max(ends), list(self.placed.offsets)
                if self.peak <= self.packing.bound:
                    return
                self.target = self._next_target()
                high = [member for member, end in enumerate(ends) if end > self.target]
            self._move(high, self.target * self.WARM * (self.COLD / self.WARM) ** (number / moves))

    def _next_target(self) -> int:
        return max(self.packing.bound, min(int(self.peak * self.STEP), self.peak - 1))

    def _pick(self, count: int) -> int:
        return min(int(next(self._random) * count), count - 1)

    def _move(self, high: Sequence[int], temperature: float) -> None:
        placed = self.placed
        removed = self._choose(high[self._pick(len(high))])
        before = [(member, placed.offsets[member]) for member in removed]
        old = self._cost(removed)
        for member in removed:
            placed.offsets[member] = -1
        for member in self._shuffled(removed):
            placed.put(member, placed.lowest(member))
        if self._cost(removed) - old > -temperature * log(next(self._random)):
            for member, offset in before:
                placed.put(member, offset)

    def _cost(self, members: Sequence[int]) -> int:
        ends, target = self.placed.ends, self.target
        return sum([ends[member] - target for member in members if ends[member] > target])

    def _choose(self, top: int) -> list[int]:
        """The buffer at the peak and buffers reached from it along conflicts."""
        conflicts = self.packing.conflicts
        removed = {top: None}
        pool = conflicts[top]
        for _ in range(2 + self._pick(self.REMOVED)):
            member = pool[self._pick(len(pool))]
            removed[member] = None
            if next(self._random) < self.WANDER:
                pool = conflicts[member]
        return list(removed)

    def _shuffled(self, members: Sequence[int]) -> list[int]:
        """Roughly by size, roughly by area, or with the buffer at the peak first."""
        kind = next(self._random)
        if kind >= self.BY_AREA:
            return list(members)
        keys: dict[int, float] = {}
        for member in members:
            lives = 1 if kind < self.BY_SIZE else 1 + len(self.packing.conflicts[member])
            weight = self.packing.sizes[member] * lives
            keys[member] = -weight * (0.5 + next(self._random))
        return sorted(members, key=lambda member: keys[member])


HILL_CLIMB = HillClimb()
