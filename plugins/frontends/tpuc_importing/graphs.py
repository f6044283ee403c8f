"""Dependences between nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

NodeT = TypeVar("NodeT")


def needed(
    nodes: Sequence[NodeT],
    outputs: Iterable[str],
    results: Callable[[NodeT], Iterable[str]],
    reads: Callable[[NodeT], Iterable[str]],
) -> list[NodeT]:
    """Return the nodes that the outputs depend on, in the given order, in which each follows what it reads."""
    wanted, found = set(outputs), list[NodeT]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(results(node)):
            wanted.update(reads(node))
            found.append(node)
    return found[::-1]
