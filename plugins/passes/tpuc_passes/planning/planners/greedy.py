"""Best of several greedy orders, stopped early when the proven lower bound is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpuc.api import BufferInfo, Planner, PoolAllocation, PoolInfo, TpucError


@dataclass(frozen=True)
class Greedy(Planner):
    """First-fit over buffers sorted by size, by number of conflicts, by both, and as given; the lowest peak wins.

    A single order can be 1.4 times worse than the best one (PERFORMANCE 2.1), together they reach the lower bound on
    ordinary networks.
    """

    name = "greedy"

    def plan(self, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
        """See Planner."""
        bound = lower_bound(buffers)
        best: dict[str, PoolAllocation] | None = None
        best_peak = 0
        for key in _ORDERS:
            order = [buffer for _, buffer in sorted(enumerate(buffers), key=lambda pair: (*key(pair[1]), pair[0]))]
            plan = _first_fit(order, pools)
            peak = peak_bytes(buffers, plan)
            if best is None or peak < best_peak:
                best, best_peak = plan, peak
            if best_peak <= bound:
                break
        return best or {}


GREEDY = Greedy()

_ORDERS: tuple[Callable[[BufferInfo], tuple[int, ...]], ...] = (
    lambda buffer: (-buffer.size_bytes, -len(buffer.conflicts)),
    lambda buffer: (-len(buffer.conflicts), -buffer.size_bytes),
    lambda buffer: (-buffer.size_bytes * (1 + len(buffer.conflicts)),),
    lambda _: (),
)


def lower_bound(buffers: Sequence[BufferInfo]) -> int:
    """Bytes below which no plan in one pool can go: the heaviest clique found by walking each buffer's conflicts."""
    by_name = {buffer.name: buffer for buffer in buffers}
    bound = 0
    for buffer in buffers:
        clique = [buffer]
        for name in sorted(buffer.conflicts, key=lambda n: -by_name[n].size_bytes if n in by_name else 0):
            other = by_name.get(name)
            if other is not None and all(member.name in other.conflicts for member in clique):
                clique.append(other)
        bound = max(bound, sum(member.size_bytes for member in clique))
    return bound


def peak_bytes(buffers: Sequence[BufferInfo], plan: dict[str, PoolAllocation]) -> int:
    """Highest used byte of any pool."""
    return max((plan[buffer.name].offset + buffer.size_bytes for buffer in buffers), default=0)


def _first_fit(order: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
    placed: dict[str, PoolAllocation] = {}
    sizes: dict[str, int] = {}
    by_name = {pool.name: pool for pool in pools}
    for buffer in order:
        candidates = [by_name[name] for name in buffer.pool_candidates] or list(pools)
        for pool in candidates:
            offset = _lowest_gap(buffer, pool, placed, sizes)
            if pool.size_bytes is None or offset + buffer.size_bytes <= pool.size_bytes:
                placed[buffer.name] = PoolAllocation(pool.name, offset)
                sizes[buffer.name] = buffer.size_bytes
                break
        else:
            names = ", ".join(f"{pool.name} ({pool.size_bytes} bytes)" for pool in candidates)
            raise TpucError(
                f"buffer '{buffer.name}': {buffer.size_bytes} bytes fit none of its pools: {names}; enlarge a pool or "
                "allow another one"
            )
    return placed


def _lowest_gap(buffer: BufferInfo, pool: PoolInfo, placed: dict[str, PoolAllocation], sizes: dict[str, int]) -> int:
    alignment = max(buffer.alignment, pool.alignment)
    taken = sorted(
        (placed[name].offset, placed[name].offset + sizes[name])
        for name in buffer.conflicts
        if name in placed and placed[name].pool == pool.name
    )
    at = 0
    for start, end in taken:
        if at + buffer.size_bytes <= start:
            break
        at = max(at, -(-end // alignment) * alignment)
    return at
