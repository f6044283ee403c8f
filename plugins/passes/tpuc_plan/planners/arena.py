"""Plan memory from live ranges: list buffers, check the planner's result, compute bounds and reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    BufferInfo,
    MemoryPlan,
    PlannedBuffer,
    PlannedPool,
    Planner,
    PluginError,
    PoolAllocation,
    PoolInfo,
    UsageError,
)

from tpuc_plan.planners.alignment import align
from tpuc_plan.planners.packing import Packing


@dataclass(frozen=True)
class Lived:
    """A buffer and its live range: it holds data from program point `first` to `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int
    pool_candidates: tuple[str, ...] = ()


def buffer_list(lived: Sequence[Lived], alignment: int = 1) -> list[BufferInfo]:
    """Return the buffers with their conflicts. Sizes are rounded up to `alignment`, so the next buffer is aligned
    too.
    """
    return [
        BufferInfo(
            one.name,
            align(one.size_bytes, alignment),
            alignment,
            frozenset(
                other.name
                for other in lived
                if other is not one and other.first <= one.last and one.first <= other.last
            ),
            one.pool_candidates,
        )
        for one in lived
    ]


def make_plan(
    planner: Planner, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo], lived: Sequence[Lived] = ()
) -> MemoryPlan:
    """Run a planner, check its result, and return the plan with bounds and a reason for each place. Raises PluginError
    if the result is invalid.
    """
    placed = planner.plan(buffers, pools)
    check(planner.name, buffers, pools, placed)
    lives = {one.name: (one.first, one.last) for one in lived}
    planned = tuple(
        PlannedBuffer(
            buffer.name,
            buffer.size_bytes,
            placed[buffer.name].pool,
            placed[buffer.name].offset,
            *lives.get(buffer.name, (0, 0)),
            reason=_reason(buffer, buffers, placed),
            candidates=buffer.pool_candidates,
        )
        for buffer in buffers
    )
    return MemoryPlan(planner.name, tuple(_planned_pool(pool, buffers, placed) for pool in pools), planned)


def find_planner(get: Callable[[str], Planner], text: str) -> Planner:
    """Return the planner for a text `name` or `name{option=value,...}`, where options are fields of the planner. Raises
    UsageError for unknown options and values.
    """
    name, brace, rest = text.partition("{")
    planner = get(name)
    if not brace:
        return planner
    if not rest.endswith("}"):
        raise UsageError(f"planner '{text}' has no closing brace; write NAME{{option=value}}.")
    known = [field.name for field in dataclasses.fields(planner)] if dataclasses.is_dataclass(planner) else []
    values: dict[str, Any] = {}
    for part in filter(None, rest[:-1].split(",")):
        key, _, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"planner '{name}' has no option '{key}'; {has}.")
        if not value.strip().isdecimal():
            raise UsageError(f"planner '{name}': option {key} takes a whole number, not '{value}'.")
        values[key] = int(value)
    replaced: Any = planner
    return dataclasses.replace(replaced, **values)


def check(
    name: str, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo], placed: Mapping[str, PoolAllocation]
) -> None:
    """Raise PluginError if a plan omits a buffer, places it in a forbidden or full pool, misaligns it, or overlaps two
    live buffers.
    """
    by_name = {pool.name: pool for pool in pools}
    sizes = {buffer.name: buffer.size_bytes for buffer in buffers}
    for buffer in buffers:
        place = placed.get(buffer.name)
        fault = "has no place" if place is None else ""
        if place is not None:
            pool = by_name.get(place.pool)
            end = place.offset + buffer.size_bytes
            if pool is None or (buffer.pool_candidates and place.pool not in buffer.pool_candidates):
                fault = f"lies in pool '{place.pool}', which is not one of its candidates"
            elif place.offset < 0 or (pool.size_bytes is not None and end > pool.size_bytes):
                fault = f"ends at {end} of pool '{place.pool}', which has {pool.size_bytes} bytes"
            elif place.offset % max(buffer.alignment, pool.alignment):
                fault = f"lies at {place.offset}, which is not a multiple of {max(buffer.alignment, pool.alignment)}"
            else:
                for other in sorted(buffer.conflicts & sizes.keys()):
                    there = placed.get(other)
                    if there is not None and there.pool == place.pool and _overlap(place, end, there, sizes[other]):
                        fault = f"overlaps '{other}', which is live at the same time"
                        break
        if fault:
            raise PluginError(
                f"planner '{name}': buffer '{buffer.name}' {fault}; use another planner and report this to its author"
            )


def _overlap(place: PoolAllocation, end: int, there: PoolAllocation, size: int) -> bool:
    return place.offset < there.offset + size and there.offset < end


def _planned_pool(pool: PoolInfo, buffers: Sequence[BufferInfo], placed: Mapping[str, PoolAllocation]) -> PlannedPool:
    members = [buffer for buffer in buffers if placed[buffer.name].pool == pool.name]
    peak = max((placed[buffer.name].offset + buffer.size_bytes for buffer in members), default=0)
    bound = Packing.of(members, pool.alignment).bound
    return PlannedPool(pool.name, pool.offset, pool.size_bytes, peak, bound)


def _reason(buffer: BufferInfo, buffers: Sequence[BufferInfo], placed: Mapping[str, PoolAllocation]) -> str:
    place = placed[buffer.name]
    end = place.offset + buffer.size_bytes
    beside = [other for other in buffers if other.name in buffer.conflicts and placed[other.name].pool == place.pool]
    below = max(
        (other for other in beside if placed[other.name].offset + other.size_bytes <= place.offset),
        key=lambda other: placed[other.name].offset + other.size_bytes,
        default=None,
    )
    above = min(
        (other for other in beside if placed[other.name].offset >= end),
        key=lambda other: placed[other.name].offset,
        default=None,
    )
    if below is None:
        reason = "at the start of the pool" if place.offset == 0 else "nothing below it is live at the same time"
    else:
        reason = f"above '{below.name}'"
    if above is not None:
        reason += f", below '{above.name}'"
    shared = [
        other.name
        for other in buffers
        if other.name != buffer.name
        and other.name not in buffer.conflicts
        and placed[other.name].pool == place.pool
        and _overlap(place, end, placed[other.name], other.size_bytes)
    ]
    if shared:
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        reason += f"; shares bytes with '{shared[0]}'{more}, never live at the same time"
    if buffer.pool_candidates and place.pool != buffer.pool_candidates[0]:
        reason += f"; pool '{buffer.pool_candidates[0]}' has no room for it"
    return reason


def distinct(lived: Sequence[Lived]) -> list[Lived]:
    """Return the same buffers, with `#2`, `#3`, ... appended to repeated names."""
    seen: dict[str, int] = {}
    result: list[Lived] = []
    for one in lived:
        count = seen[one.name] = seen.get(one.name, 0) + 1
        name = one.name if count == 1 else f"{one.name}#{count}"
        result.append(Lived(name, one.size_bytes, one.first, one.last, one.pool_candidates))
    return result
