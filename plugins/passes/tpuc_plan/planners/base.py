"""Shared code of the bundled planners: checks, choice of pools, and errors that suggest a fix."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import BufferInfo, Planner, PoolAllocation, PoolInfo, TpucError, UsageError

from tpuc_plan.planners.alignment import align
from tpuc_plan.planners.orders import ORDERS
from tpuc_plan.planners.packing import Packing


@dataclass(frozen=True)
class Packed:
    """Offsets of a packing. `proven`: no packing has a lower peak, by a bound or by complete search."""

    offsets: Sequence[int]
    proven: bool = False


class PackingPlanner(Planner):
    """A planner that packs one pool at a time; a buffer goes to its first candidate pool with space."""

    @abstractmethod
    def pack(self, packing: Packing, limit: int | None) -> Packed:
        """Return the offsets with the lowest peak that this algorithm finds for one pool; `limit` is its size."""

    def plan(self, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
        """See Planner."""
        check_problem(buffers, pools)
        chosen = choose_pools(buffers, pools)
        plan: dict[str, PoolAllocation] = {}
        for pool in pools:
            members = [buffer for buffer in buffers if chosen[buffer.name] == pool.name]
            if not members:
                continue
            packing = Packing.of(members, pool.alignment)
            packed = self.pack(packing, pool.size_bytes)
            peak = packing.peak(packed.offsets)
            if pool.size_bytes is not None and peak > pool.size_bytes:
                raise too_small(pool, members, packing, peak, packed.proven)
            for buffer, offset in zip(members, packed.offsets, strict=True):
                plan[buffer.name] = PoolAllocation(pool.name, offset)
        return {buffer.name: plan[buffer.name] for buffer in buffers}


def check_problem(buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> None:
    """Raise UsageError for contradictory pools or buffers, TpucError for a buffer that fits in no pool."""
    by_name: dict[str, PoolInfo] = {}
    for pool in pools:
        if pool.name in by_name:
            raise UsageError(f"pool '{pool.name}' is given twice; keep one.")
        if pool.offset % pool.alignment:
            raise UsageError(
                f"pool '{pool.name}' starts at {pool.offset}, which is not a multiple of its alignment "
                f"{pool.alignment}; start it at {align(pool.offset, pool.alignment)}."
            )
        by_name[pool.name] = pool
    names: set[str] = set()
    for buffer in buffers:
        if buffer.name in names:
            raise UsageError(f"buffer '{buffer.name}' is given twice; keep one.")
        names.add(buffer.name)
        for name in buffer.pool_candidates:
            if name not in by_name:
                known = ", ".join(by_name) or "none"
                raise UsageError(
                    f"buffer '{buffer.name}' names pool '{name}', which does not exist; known pools: {known}."
                )
        candidates = [by_name[name] for name in buffer.pool_candidates] or list(pools)
        if all(pool.size_bytes is not None and pool.size_bytes < buffer.size_bytes for pool in candidates):
            raise never_fits(buffer, candidates)


def never_fits(buffer: BufferInfo, candidates: Sequence[PoolInfo]) -> TpucError:
    """Return the error for a buffer that is larger than every pool it may use."""
    if not candidates:
        return TpucError(f"buffer '{buffer.name}' of {buffer.size_bytes} bytes has no pool to lie in; give one")
    largest = max(candidates, key=lambda pool: pool.size_bytes or 0)
    sizes = ", ".join(f"'{pool.name}' of {pool.size_bytes} bytes" for pool in candidates)
    return TpucError(
        f"buffer '{buffer.name}' of {buffer.size_bytes} bytes fits none of its pools, {sizes}; enlarge "
        f"'{largest.name}' by {buffer.size_bytes - (largest.size_bytes or 0)} bytes or allow a larger pool"
    )


def too_small(pool: PoolInfo, members: Sequence[BufferInfo], packing: Packing, peak: int, proven: bool) -> TpucError:
    """Return the error for a pool that its buffers overflow; it states the size that would suffice."""
    least = packing.peak([0] * len(packing)) if not packing.cliques else packing.bound
    reason = "no plan needs less" if proven or peak == least else f"no plan needs less than {least}"
    alone = [buffer for buffer in members if len(buffer.pool_candidates) == 1]
    way_out = "give its buffers another pool to fall back on" if alone else "enlarge the pools after it"
    return TpucError(
        f"pool '{pool.name}' of {pool.size_bytes} bytes is too small for its {len(members)} buffers, which take {peak} "
        f"bytes ({reason}); enlarge it by {peak - (pool.size_bytes or 0)} bytes or {way_out}"
    )


def choose_pools(buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, str]:
    """Choose the pool of every buffer: its first candidate, or a later one if the earlier ones are full.

    Of the greedy orders, the one that moves the fewest bytes to later candidates wins. A buffer that fits in none goes
    to its largest pool; the packing algorithm decides whether it fits there after all.
    """
    candidates = {buffer.name: list(buffer.pool_candidates) or [pool.name for pool in pools] for buffer in buffers}
    if all(len(names) == 1 for names in candidates.values()) or all(
        pool.size_bytes is None for pool in pools if any(pool.name == names[0] for names in candidates.values())
    ):
        return {name: names[0] for name, names in candidates.items()}
    by_name = {pool.name: pool for pool in pools}
    packing = Packing.of(buffers)
    best: tuple[tuple[int, int], list[str]] | None = None
    for order in ORDERS:
        chosen, cost = _fill(packing, order(packing), buffers, [candidates[b.name] for b in buffers], by_name)
        if best is None or cost < best[0]:
            best = (cost, chosen)
    assert best is not None
    return {buffer.name: pool for buffer, pool in zip(buffers, best[1], strict=True)}


def _fill(
    packing: Packing,
    order: Sequence[int],
    buffers: Sequence[BufferInfo],
    candidates: Sequence[Sequence[str]],
    pools: dict[str, PoolInfo],
) -> tuple[list[str], tuple[int, int]]:
    """Return pools by first fit, and their cost: bytes that overflow every pool, then bytes times rank of the pool
    used.
    """
    places: dict[int, tuple[str, int]] = {}
    overflow = fallen = 0
    for member in order:
        size = packing.sizes[member]
        for rank, name in enumerate(candidates[member]):
            pool = pools[name]
            alignment = max(packing.alignments[member], pool.alignment)
            taken = sorted(
                (places[other][1], places[other][1] + packing.sizes[other])
                for other in packing.conflicts[member]
                if other in places and places[other][0] == name
            )
            at = 0
            for start, end in taken:
                if at + size <= start:
                    break
                at = max(at, align(end, alignment))
            if pool.size_bytes is None or at + size <= pool.size_bytes:
                places[member] = (name, at)
                fallen += rank * size
                break
        else:
            largest = max(candidates[member], key=lambda name: pools[name].size_bytes or 0)
            places[member] = (largest, 0)
            overflow += size
    return [places[member][0] for member in range(len(buffers))], (overflow, fallen)
