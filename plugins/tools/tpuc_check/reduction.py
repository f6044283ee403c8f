"""Remove parts of a network as long as the failure stays the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

Fails: TypeAlias = "Callable[[Collection[int]], bool]"
"""Does the network of these parts still fail in the same way?"""


def reduced(count: int, fails: Fails) -> list[int]:
    """A small set of the parts 0 to `count` - 1 that still fails, and from which no single part can be taken.

    First the shortest beginning that fails, then the shortest end of that, each by halving; then smaller and smaller
    runs of parts are left out.
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
    """The smallest number that fails, if those above it do too; else one that does."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _without(kept: Sequence[int], size: int) -> Iterator[list[int]]:
    """Without each run of `size` parts, the last ones first: the failure is usually at the end."""
    for start in range(len(kept) - size, -size, -size):
        yield [*kept[: max(start, 0)], *kept[start + size :]]
