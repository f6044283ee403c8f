"""One-channel planes as strips of rows distributed over the lanes, and their assembly in one lane."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tpuc.api import LocalTensor, Shape4, View

from tpuc_cv18.isa import DType, Target, TensorCopy, natural_strides
from tpuc_cv18.isa.geometry import EU_BYTES, LANE_BYTES
from tpuc_cv18.operands import MAX_DMA_EXTENT, MAX_EXTENT

_VECTOR_CYCLES = 19
"""Cycles to look up 16 bytes in each lane: 16 and 3, by the timing rules of `tpuc_cv18.timing`."""
_WHOLE = LANE_BYTES // 4
"""Maximum size in bytes of a plane that a lane may hold as a whole; larger ones are processed in about `_STRIPES`
stripes of rows.
"""
_STRIPES = 8


@dataclass(frozen=True)
class Strips:
    """A plane of `height` rows as consecutive strips of `rows` rows, each divided equally among `lanes`."""

    height: int
    width: int
    rows: int
    lanes: int

    @property
    def size(self) -> int:
        """Elements per strip."""
        return self.rows * self.width

    @property
    def part(self) -> int:
        """Elements of a strip per lane."""
        return self.size // self.lanes

    @property
    def view(self) -> View:
        """View of the plane: strips as batches, parts as channels."""
        return View(self.shape(self.height // self.rows), (self.size, self.part, self.part, 1))

    def shape(self, count: int) -> Shape4:
        """Extents of `count` strips."""
        return (count, self.lanes, 1, self.part)

    def around(self, rows: tuple[int, int]) -> tuple[int, int]:
        """The range of strips that contains a range of rows."""
        return rows[0] // self.rows, -(-rows[1] // self.rows)

    def cycles(self, item_bytes: int, target: Target) -> float:
        """Estimated cycles to look up and copy all strips. A strip cut by the boundary of a stripe is computed
        twice.
        """
        count, vectors = self.height // self.rows, -(-self.part * item_bytes // EU_BYTES)
        words = max(self.lanes * vectors, -(-self.size * item_bytes // EU_BYTES))
        is_whole = self.height * self.width * item_bytes <= _WHOLE
        twice = 0 if is_whole else (self.rows - 1) * _STRIPES / self.height
        copying = count * words * EU_BYTES / target.bytes_per_cycle
        return count * vectors * _VECTOR_CYCLES * (1 + twice) + copying


@functools.cache
def strips_of(height: int, width: int, item_bytes: int, target: Target) -> Strips | None:
    """The fastest division into strips; None where the plane has no equal parts."""
    options = _options(height, width, item_bytes, target)
    return min(options, key=lambda one: (one.cycles(item_bytes, target), one.rows), default=None)


def _options(height: int, width: int, item_bytes: int, target: Target) -> Iterator[Strips]:
    for rows in range(1, height + 1):
        if height % rows or rows * width * item_bytes > MAX_DMA_EXTENT or height // rows > MAX_EXTENT:
            continue
        for lanes in range(2, target.lanes + 1):
            if rows * width % lanes == 0 and rows * width // lanes <= MAX_EXTENT:
                yield Strips(height, width, rows, lanes)


def joining(
    parts: LocalTensor, strips: Strips, rows: tuple[int, int], address: int, target: Target
) -> Iterator[TensorCopy]:
    """Copies that collect `rows`, counted from the first strip, in the first lane."""
    first, end = rows[0] * strips.width, rows[1] * strips.width
    for start, stop in _cut(first, end, strips.size):
        whole = stop - start >= strips.size
        for place in [(start, stop)] if whole else _cut(start, stop, strips.part):
            yield _copy(parts, strips, place, address + (place[0] - first) * _item_bytes(parts), target)


def _copy(parts: LocalTensor, strips: Strips, place: tuple[int, int], address: int, target: Target) -> TensorCopy:
    """Copy elements that are whole strips, whole parts of one strip, or within one part."""
    size, item_bytes = place[1] - place[0], _item_bytes(parts)
    (number, inside), count = divmod(place[0], strips.size), max(size // strips.size, 1)
    lane, offset = divmod(inside, strips.part)
    lanes = max(size // count // strips.part, 1)
    strip, part = size // count * item_bytes, size // count // lanes * item_bytes
    steps = natural_strides(target, strips.shape(count), item_bytes)[:3]
    return TensorCopy(
        source=lane * LANE_BYTES + parts.address + number * steps[0] + offset * item_bytes,
        destination=address,
        shape=(count, lanes, 1, part),
        destination_shape=(count, 1, 1, strip),
        dtype=DType.UINT8,
        source_strides=steps,
        destination_strides=(strip, strip, strip),
    )


def _cut(first: int, end: int, unit: int) -> list[tuple[int, int]]:
    """Split a range at multiples of `unit`: before the first, between them, and after the last."""
    begin = min(-(-first // unit) * unit, end)
    stop = max(end // unit * unit, begin)
    return [(start, to) for start, to in ((first, begin), (begin, stop), (stop, end)) if start < to]


def _item_bytes(tensor: LocalTensor) -> int:
    return tensor.element.bits // 8
