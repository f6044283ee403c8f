"""Orders in which greedy planners place buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tpuc_plan.planners.packing import Packing

Order: TypeAlias = Callable[[Packing], list[int]]


def _sorted(packing: Packing, key: Callable[[int], tuple[int, ...]]) -> list[int]:
    return sorted(range(len(packing)), key=lambda member: (*key(member), member))


def by_size(packing: Packing) -> list[int]:
    """Largest buffer first."""
    return _sorted(packing, lambda m: (-packing.sizes[m], -len(packing.conflicts[m])))


def by_conflicts(packing: Packing) -> list[int]:
    """Buffer with most conflicts first."""
    return _sorted(packing, lambda m: (-len(packing.conflicts[m]), -packing.sizes[m]))


def by_area(packing: Packing) -> list[int]:
    """Largest product of size and number of conflicts first."""
    return _sorted(packing, lambda m: (-packing.sizes[m] * (1 + len(packing.conflicts[m])),))


def as_given(packing: Packing) -> list[int]:
    """Program order."""
    return list(range(len(packing)))


def by_load(packing: Packing) -> list[int]:
    """Buffers of the fullest moment first."""
    loads = [0] * len(packing)
    for clique in packing.cliques:
        total = sum(packing.sizes[member] for member in clique)
        for member in clique:
            loads[member] = max(loads[member], total)
    return _sorted(packing, lambda m: (-loads[m], -packing.sizes[m]))


ORDERS: tuple[Order, ...] = (by_size, by_area, by_conflicts, by_load, as_given)
