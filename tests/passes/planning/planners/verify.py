"""Checks a memory plan on its own: nothing of it comes from the planners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

from tpuc.api import BufferInfo, PoolAllocation, PoolInfo

Span = tuple[int, int, int]
"""First point, last point, bytes of a buffer."""


def buffers_of(spans: Sequence[Span], alignment: int = 1, candidates: tuple[str, ...] = ()) -> list[BufferInfo]:
    """Buffers that live from their first to their last point, both included."""
    return [
        BufferInfo(
            f"b{index}",
            size,
            alignment,
            frozenset(
                f"b{other}"
                for other, (start, end, _) in enumerate(spans)
                if other != index and start <= last and first <= end
            ),
            candidates,
        )
        for index, (first, last, size) in enumerate(spans)
    ]


def live_bytes(spans: Sequence[Span]) -> int:
    """The most that is live at any point."""
    points = {first for first, _, _ in spans}
    return max((sum(size for first, last, size in spans if first <= point <= last) for point in points), default=0)


def check_plan(
    buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo], plan: Mapping[str, PoolAllocation]
) -> dict[str, int]:
    """The peak of every pool; fails where the plan breaks a rule."""
    assert list(plan) == [buffer.name for buffer in buffers]
    by_name = {pool.name: pool for pool in pools}
    peaks = dict.fromkeys(by_name, 0)
    for buffer in buffers:
        place = plan[buffer.name]
        pool = by_name[place.pool]
        assert not buffer.pool_candidates or place.pool in buffer.pool_candidates
        assert place.offset >= 0
        assert place.offset % buffer.alignment == 0
        assert (pool.offset + place.offset) % pool.alignment == 0
        peaks[place.pool] = max(peaks[place.pool], place.offset + buffer.size_bytes)
        assert pool.size_bytes is None or peaks[place.pool] <= pool.size_bytes
    for one, two in combinations(buffers, 2):
        if two.name in one.conflicts or one.name in two.conflicts:
            a, b = plan[one.name], plan[two.name]
            apart = a.offset + one.size_bytes <= b.offset or b.offset + two.size_bytes <= a.offset
            assert a.pool != b.pool or apart, f"{one.name} and {two.name} overlap"
    return peaks


def least_peak(buffers: Sequence[BufferInfo]) -> int:
    """The lowest peak of one pool, by trying every order: some order of first fit reaches any plan's peak."""
    best = sum(buffer.size_bytes + buffer.alignment for buffer in buffers)
    for order in permutations(buffers):
        ends: dict[str, tuple[int, int]] = {}
        for buffer in order:
            at = 0
            for start, end in sorted(ends[name] for name in buffer.conflicts if name in ends):
                if at + buffer.size_bytes <= start:
                    break
                at = max(at, -(-end // buffer.alignment) * buffer.alignment)
            ends[buffer.name] = (at, at + buffer.size_bytes)
            if at + buffer.size_bytes >= best:
                break
        else:
            best = max(end for _, end in ends.values())
    return best
