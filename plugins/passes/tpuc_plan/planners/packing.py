"""Buffers of one pool as integers (sizes, alignments, conflicts), their placement, and lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tpuc.api import BufferInfo


@dataclass(frozen=True)
class Packing:
    """Buffers `0..n-1` that share one memory. `conflicts[i]`: the buffers that are live together with `i`,
    ascending.
    """

    sizes: Sequence[int]
    alignments: Sequence[int]
    conflicts: Sequence[Sequence[int]]

    @classmethod
    def of(cls, buffers: Sequence[BufferInfo], pool_alignment: int = 1) -> Packing:
        """Return the packing of these buffers. Conflicts with other buffers are dropped; one-sided ones are made
        symmetric.
        """
        index = {buffer.name: position for position, buffer in enumerate(buffers)}
        sets: list[set[int]] = [set() for _ in buffers]
        for one, buffer in enumerate(buffers):
            for name in buffer.conflicts:
                other = index.get(name, one)
                if other != one:
                    sets[one].add(other)
                    sets[other].add(one)
        return cls(
            [buffer.size_bytes for buffer in buffers],
            [max(buffer.alignment, pool_alignment) for buffer in buffers],
            [sorted(others) for others in sets],
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def part(self, members: Sequence[int]) -> Packing:
        """Return the packing of some of the buffers, in the given order."""
        index = {member: position for position, member in enumerate(members)}
        return Packing(
            [self.sizes[member] for member in members],
            [self.alignments[member] for member in members],
            [sorted(index[other] for other in self.conflicts[member] if other in index) for member in members],
        )

    def peak(self, offsets: Sequence[int]) -> int:
        """Return the end of the topmost buffer in bytes."""
        return max((offset + size for offset, size in zip(offsets, self.sizes, strict=True)), default=0)

    @cached_property
    def cliques(self) -> tuple[tuple[int, ...], ...]:
        """Maximal sets of buffers that all conflict with each other; every conflict is in one of them.

        If conflicts come from live ranges (an interval graph), the cliques are the moments of the program, so the
        heaviest one is exactly the peak of live bytes.
        """
        masks = [sum(1 << other for other in others) for others in self.conflicts]
        order = _search_order(self.conflicts)
        found: list[int] = []
        seen = 0
        for vertex in order:
            earlier = masks[vertex] & seen
            seen |= 1 << vertex
            while True:
                clique = _grow(vertex, earlier, masks, order)
                found.append(clique)
                earlier &= ~clique
                if not earlier:
                    break
        found.sort(key=lambda mask: (-mask.bit_count(), mask))
        maximal: list[int] = []
        for clique in found:
            if not any(clique & other == clique for other in maximal):
                maximal.append(clique)
        return tuple(_members(clique) for clique in maximal)

    @cached_property
    def bound(self) -> int:
        """Lower bound in bytes on the peak of any plan: the heaviest clique, with the gaps that alignment forces."""
        return max((self._clique_bytes(clique) for clique in self.cliques), default=0)

    def _clique_bytes(self, clique: Sequence[int]) -> int:
        # Offsets are multiples of the smallest alignment at least, so all but the topmost buffer end in a gap.
        step = min(self.alignments[member] for member in clique)
        gaps = [-self.sizes[member] % step for member in clique]
        return sum(self.sizes[member] for member in clique) + sum(gaps) - max(gaps)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Connected components of the conflict graph; each can be planned alone."""
        unseen = dict.fromkeys(range(len(self)))
        groups: list[tuple[int, ...]] = []
        while unseen:
            stack = [next(iter(unseen))]
            group: list[int] = []
            while stack:
                member = stack.pop()
                if member in unseen:
                    del unseen[member]
                    group.append(member)
                    stack += self.conflicts[member]
            groups.append(tuple(sorted(group)))
        return tuple(groups)

    def first_fit(self, order: Sequence[int]) -> list[int]:
        """Return the offsets if each buffer in turn takes the lowest gap that is large enough."""
        placed = Placed(self)
        for member in order:
            placed.put(member, placed.lowest(member))
        return placed.offsets

    def best_fit(self, order: Sequence[int]) -> list[int]:
        """Return the offsets if each buffer in turn takes the smallest gap that is large enough, else the end."""
        placed = Placed(self)
        for member in order:
            placed.put(member, placed.tightest(member))
        return placed.offsets


@dataclass
class Placed:
    """A partial plan; offset -1 means not placed."""

    packing: Packing
    offsets: list[int] = field(init=False)
    ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.offsets = [-1] * len(self.packing)
        self.ends = [0] * len(self.packing)

    def put(self, member: int, offset: int) -> None:
        """Place a buffer."""
        self.offsets[member] = offset
        self.ends[member] = offset + self.packing.sizes[member]

    def neighbors(self, member: int) -> list[tuple[int, int]]:
        """Return start and end of every placed conflicting buffer, in ascending order."""
        offsets, ends = self.offsets, self.ends
        return sorted([(offsets[c], ends[c]) for c in self.packing.conflicts[member] if offsets[c] >= 0])

    def lowest(self, member: int) -> int:
        """Return the lowest offset at which a buffer fits."""
        size, alignment = self.packing.sizes[member], self.packing.alignments[member]
        at = 0
        for start, end in self.neighbors(member):
            if at + size <= start:
                break
            if end > at:
                at = -(-end // alignment) * alignment
        return at

    def tightest(self, member: int) -> int:
        """Return the offset of the smallest gap that is large enough, or the end if there is none."""
        size, alignment = self.packing.sizes[member], self.packing.alignments[member]
        at = 0
        best: tuple[int, int] | None = None
        for start, end in self.neighbors(member):
            if at + size <= start and (best is None or start - at < best[0]):
                best = (start - at, at)
            if end > at:
                at = -(-end // alignment) * alignment
        return at if best is None else best[1]


def _search_order(conflicts: Sequence[Sequence[int]]) -> list[int]:
    """Return the order of a maximum cardinality search; reversed, it is a perfect elimination order of a chordal
    graph.
    """
    weights = [0] * len(conflicts)
    buckets: list[dict[int, None]] = [dict.fromkeys(range(len(conflicts)))]
    order: list[int] = []
    top = 0
    for _ in conflicts:
        while not buckets[top]:
            top -= 1
        vertex = next(iter(buckets[top]))
        del buckets[top][vertex]
        weights[vertex] = -1
        order.append(vertex)
        for other in conflicts[vertex]:
            weight = weights[other]
            if weight >= 0:
                del buckets[weight][other]
                weights[other] = weight + 1
                if weight + 1 == len(buckets):
                    buckets.append({})
                buckets[weight + 1][other] = None
                top = max(top, weight + 1)
    return order


def _grow(vertex: int, candidates: int, masks: Sequence[int], order: Sequence[int]) -> int:
    """Grow a clique greedily from `vertex` by compatible candidates, in search order."""
    clique, common = 1 << vertex, candidates
    for other in order:
        if not common:
            break
        if common >> other & 1:
            clique |= 1 << other
            common &= masks[other]
    return clique


def _members(mask: int) -> tuple[int, ...]:
    members: list[int] = []
    while mask:
        low = mask & -mask
        members.append(low.bit_length() - 1)
        mask ^= low
    return tuple(members)
