"""Remove parts of a network as long as the failure stays the same (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

Fails: TypeAlias = "Callable[[Collection[int]], bool]"
"""True if the network with these parts still fails in the same way."""


def reduced(count: int, fails: Fails) -> list[int]:
    """Return a small subset of the parts 0 to `count` - 1 that still fails, and from which no single part can be
    removed.

    First find the shortest failing prefix, then its shortest failing suffix, both by bisection; then drop shorter and
    shorter runs of parts.
    """
    kept = list(range(count))
    kept = kept[: _shortest(len(kept), lambda size: fails(kept[:size]))]
    kept = kept[len(kept) - _shortest(len(kept), lambda size: fails(kept[len(kept) - size :])) :]
    size = len(kept) // 2
    while size:
        for without in _without(kept, size):
            if without and fails(without):
                kept = without
                break
        else:
            size //= 2
    return kept


def _shortest(count: int, fails: Callable[[int], bool]) -> int:
    """Return the smallest failing number if failure is monotone; otherwise some failing number."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _without(kept: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the parts without each run of `size` parts, last runs first: failures are usually at the end."""
    for start in range(len(kept) - size, -size, -size):
        yield [*kept[: max(start, 0)], *kept[start + size :]]
