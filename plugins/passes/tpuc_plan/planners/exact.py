"""Exact search: find the lowest peak and prove it, for small problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc_plan.planners.base import Packed, PackingPlanner
from tpuc_plan.planners.hill_climb import HillClimb
from tpuc_plan.planners.packing import Packing


@dataclass(frozen=True)
class Exact(PackingPlanner):
    """Branch and bound over canonical plans; stops after `nodes` steps with the best plan found.

    Parts of the network without common conflicts are solved separately. A short hill climb gives the first upper bound.
    """

    name = "exact"
    nodes: int = 200_000
    moves: int = 2_000

    def pack(self, packing: Packing, limit: int | None) -> Packed:
        """See PackingPlanner."""
        first = HillClimb(moves=self.moves, starts=1).pack(packing, limit)
        if first.proven:
            return first
        offsets = list(first.offsets)
        floor = packing.bound  # no part has to be lower than the heaviest one
        proven = True
        for members in packing.components:
            part = packing.part(members)
            upper = part.peak([offsets[member] for member in members])
            if upper <= max(part.bound, floor):
                continue
            search = _Search(part, upper, max(part.bound, floor), self.nodes)
            search.run()
            proven = proven and search.complete
            if search.best is not None:
                for member, offset in zip(members, search.best, strict=True):
                    offsets[member] = offset
            floor = max(floor, part.peak([offsets[member] for member in members]))
        return Packed(offsets, proven)


class _Search:
    """Depth-first search over plans in which each buffer rests on earlier ones, from low to high offsets.

    A state is pruned if the remaining buffers of some moment exceed the upper bound, or if a buffer would be placed
    above a gap that fits another one: that one could have been placed first.
    """

    def __init__(self, packing: Packing, upper: int, lower: int, nodes: int) -> None:
        self.packing = packing
        self.upper = upper
        self.lower = lower
        self.nodes = nodes
        self.best: list[int] | None = None
        self.complete = True
        self._moments: list[list[int]] = [[] for _ in packing.sizes]
        for moment, clique in enumerate(packing.cliques):
            for member in clique:
                self._moments[member].append(moment)
        self._heights = [0] * len(packing.cliques)
        self._rest = [sum(packing.sizes[member] for member in clique) for clique in packing.cliques]
        self._offsets = [-1] * len(packing)
        loads = [max(self._rest[moment] for moment in moments) for moments in self._moments]
        self._order = sorted(
            range(len(packing)), key=lambda m: (-loads[m], -packing.sizes[m] * len(self._moments[m]), m)
        )

    def run(self) -> None:
        """Search; leaves the lowest plan in `best`, and in `complete` whether the whole space was searched."""
        stack = [self._choices(0)]
        trail: list[tuple[int, list[tuple[int, int]]]] = []
        while stack:
            if self.upper <= self.lower:
                return
            choices = stack[-1]
            if not choices:
                stack.pop()
                if trail:
                    self._undo(*trail.pop())
                continue
            self.nodes -= 1
            if self.nodes < 0:
                self.complete = False
                return
            member, offset = choices.pop()
            trail.append((member, self._put(member, offset)))
            if len(trail) == len(self.packing):
                self.upper, self.best = self.packing.peak(self._offsets), list(self._offsets)
                self._undo(*trail.pop())
            else:
                stack.append(self._choices(offset))

    def _put(self, member: int, offset: int) -> list[tuple[int, int]]:
        size = self.packing.sizes[member]
        before: list[tuple[int, int]] = []
        for moment in self._moments[member]:
            before.append((moment, self._heights[moment]))
            self._heights[moment] = offset + size
            self._rest[moment] -= size
        self._offsets[member] = offset
        return before

    def _undo(self, member: int, before: Sequence[tuple[int, int]]) -> None:
        for moment, height in before:
            self._heights[moment] = height
            self._rest[moment] += self.packing.sizes[member]
        self._offsets[member] = -1

    def _choices(self, lowest: int) -> list[tuple[int, int]]:
        """Return the buffers that may come next with their offsets, most promising last. All offsets are at least
        `lowest`.
        """
        heights, rest, sizes, upper = self._heights, self._rest, self.packing.sizes, self.upper
        if any(left and max(height, lowest) + left >= upper for height, left in zip(heights, rest, strict=True)):
            return []
        found: list[tuple[int, int]] = []
        roof = upper
        for member in self._order:
            if self._offsets[member] >= 0:
                continue
            moments = self._moments[member]
            alignment = self.packing.alignments[member]
            offset = -(-max([heights[moment] for moment in moments]) // alignment) * alignment
            roof = min(roof, offset + sizes[member])
            if offset >= lowest and offset + max([rest[moment] for moment in moments]) < upper:
                found.append((member, offset))
        return [(member, offset) for member, offset in reversed(found) if offset < roof]


EXACT = Exact()
