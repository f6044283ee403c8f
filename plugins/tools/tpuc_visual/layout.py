"""Lay out a graph in rows from the top, with edges leading down and few crossings.

The layout is deterministic: nodes are in topological order, which also breaks ties, and nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS, MOVES = 4, 7
"""Number of sweeps, down and up, that order the rows, and of moves of columns toward neighbors above or below."""
PASSING = 0.35
"""Width of a passing edge, in node widths."""


@dataclass(frozen=True)
class Bend:
    """A position where edges of a node pass a row on their way down."""

    source: int
    row: int
    x: float


@dataclass(frozen=True)
class Layout:
    """`rows` and `xs` of the nodes, and the bends of their edges; `x` is in node widths from the center."""

    rows: tuple[int, ...]
    xs: tuple[float, ...]
    bends: tuple[Bend, ...]


def place(count: int, edges: Iterable[tuple[int, int]]) -> Layout:
    """Return a layout of nodes 0 to `count` - 1; every edge leads to a node with a higher number."""
    reads = _readers(count, edges)
    rows = _rows(count, reads)
    drawing = _Drawing(rows, reads)
    drawing.order()
    xs = drawing.columns()
    bends = (Bend(source, row, round(xs[item], 3)) for (source, row), item in drawing.bends.items())
    return Layout(tuple(rows), tuple(round(x, 3) for x in xs[:count]), tuple(bends))


def _readers(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    reads: list[list[int]] = [[] for _ in range(count)]
    for source, target in dict.fromkeys(edges):
        assert source < target, "nodes are in topological order"
        reads[source].append(target)
    return reads


def _rows(count: int, reads: Sequence[Sequence[int]]) -> list[int]:
    """Return the row of each node: below everything it reads; a node without operands is directly above its first
    reader.
    """
    rows = [0] * count
    is_read_into = [False] * count
    for source in range(count):
        for target in reads[source]:
            rows[target] = max(rows[target], rows[source] + 1)
            is_read_into[target] = True
    for source in range(count):
        if reads[source] and not is_read_into[source]:
            rows[source] = min(rows[target] for target in reads[source]) - 1
    return rows


class _Drawing:
    """Nodes and bends as items of rows. Items beyond the nodes are bends."""

    def __init__(self, rows: Sequence[int], reads: Sequence[Sequence[int]]) -> None:
        self._row_of = list(rows)
        self.bends: dict[tuple[int, int], int] = {}
        self._widths = [1.0] * len(rows)
        self._above: list[list[int]] = [[] for _ in rows]
        self._below: list[list[int]] = [[] for _ in rows]
        for source, targets in enumerate(reads):
            for target in targets:
                self._connect(source, target)
        self._rows: list[list[int]] = [[] for _ in range(max(self._row_of, default=-1) + 1)]
        for item in self._in_reading_order(len(rows)):
            self._rows[self._row_of[item]].append(item)

    def _connect(self, source: int, target: int) -> None:
        """Add an edge through bends shared with other edges of its source."""
        last = source
        for row in range(self._row_of[source] + 1, self._row_of[target]):
            bend = self.bends.get((source, row))
            if bend is None:
                bend = self.bends[source, row] = len(self._row_of)
                self._row_of.append(row)
                self._widths.append(PASSING)
                self._above.append([last])
                self._below.append([])
                self._below[last].append(bend)
            last = bend
        self._below[last].append(target)
        self._above[target].append(last)

    def _in_reading_order(self, nodes: int) -> list[int]:
        """Yield nodes by number, each followed by the bends of its edges."""
        found: list[int] = []
        bends_of: dict[int, list[int]] = {}
        for (source, _), item in self.bends.items():
            bends_of.setdefault(source, []).append(item)
        for node in range(nodes):
            found += [node, *bends_of.get(node, [])]
        return found

    def order(self) -> None:
        """Sort each row by the mean position of neighbors, alternately downwards and upwards."""
        places = {item: float(number) for row in self._rows for number, item in enumerate(row)}
        for _ in range(SWEEPS):
            for rows, beside in ((self._rows, self._above), (self._rows[::-1], self._below)):
                for row in rows:
                    wanted = {item: _mean(places, beside[item], places[item]) for item in row}
                    row.sort(key=lambda item: (wanted[item], places[item]))
                    places.update((item, float(number)) for number, item in enumerate(row))

    def columns(self) -> list[float]:
        """Return the center of each item."""
        xs = [0.0] * len(self._row_of)
        for row in self._rows:
            self._spread(row, xs, [float(number) for number in range(len(row))])
        for move in range(MOVES):
            rows, beside = (self._rows, self._above) if move % 2 == 0 else (self._rows[::-1], self._below)
            for row in rows:
                self._spread(row, xs, [_mean(xs, beside[item], xs[item]) for item in row])
        middle = (min(xs) + max(xs)) / 2 if xs else 0.0
        return [x - middle for x in xs]

    def _spread(self, row: Sequence[int], xs: list[float], wanted: Sequence[float]) -> None:
        """Move items toward their desired positions as far as there is space: the mean of pushing right and
        pushing left.
        """
        gaps = [(self._widths[one] + self._widths[other]) / 2 for one, other in pairwise(row)]
        right, left = list(wanted), list(wanted)
        for number, gap in enumerate(gaps, 1):
            right[number] = max(right[number], right[number - 1] + gap)
        for number in range(len(row) - 2, -1, -1):
            left[number] = min(left[number], left[number + 1] - gaps[number])
        for item, one, other in zip(row, right, left, strict=True):
            xs[item] = (one + other) / 2


def _mean(values: Mapping[int, float] | Sequence[float], items: Sequence[int], otherwise: float) -> float:
    return sum(values[item] for item in items) / len(items) if items else otherwise
