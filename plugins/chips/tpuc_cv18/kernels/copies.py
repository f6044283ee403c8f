"""Decompose strided copies of any rank into DMA moves: three strided dimensions around a dense row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tpuc.api import Move
from tpuc_chip_parts.copies import Axes, Copy, four, within_field

from tpuc_cv18.operands import MAX_DMA_EXTENT

_OUTER = 3


def moves_of(copy: Copy, item_bytes: int) -> Iterator[Move]:
    """The decomposition with the fewest moves. Dimensions that are contiguous on both sides are merged, and the largest
    ones stay in a move.
    """
    limit = MAX_DMA_EXTENT // max(1, item_bytes)
    for part, source, target in within_field(copy.axes(), limit):
        yield from _moves(copy, part, source, target, item_bytes)


def _moves(copy: Copy, axes: Axes, source_offset: int, target_offset: int, item_bytes: int) -> Iterator[Move]:
    outer, row = list(axes), (1, 1, 1)
    if outer and outer[-1][2] == 1 and (outer[-1][1] == 1 or copy.fill is not None):
        row = outer.pop()
    kept = sorted(sorted(range(len(outer)), key=lambda index: -outer[index][0])[:_OUTER])
    loops = [axis for index, axis in enumerate(outer) if index not in kept]
    inner, more = _with_short_rows([outer[index] for index in kept], item_bytes)
    loops += more
    for place in itertools.product(*(range(extent) for extent, _, _ in loops)):
        source = copy.source_offset + source_offset + sum(i * axis[1] for i, axis in zip(place, loops, strict=True))
        target = copy.target_offset + target_offset + sum(i * axis[2] for i, axis in zip(place, loops, strict=True))
        shape, steps, results = (four([*inner, row], item) for item in range(3))
        yield Move(copy.operand, shape, source, steps, target, results, copy.fill)


def _with_short_rows(axes: Axes, item_bytes: int) -> tuple[Axes, Axes]:
    """Up to three axes for n, c, h, and those that must become loops, because the h stride has 16 bits."""
    h = next((i for i, axis in enumerate(axes) if max(axis[1:]) * item_bytes <= MAX_DMA_EXTENT), None)
    blank = (1, 0, 0)
    if h is not None:
        rest = [axis for i, axis in enumerate(axes) if i != h]
        return [*[blank] * (2 - len(rest)), *rest, axes[h]], []
    if len(axes) == _OUTER:
        least = min(range(_OUTER), key=lambda i: axes[i][0])
        return [*[axis for i, axis in enumerate(axes) if i != least], blank], [axes[least]]
    return [*[blank] * (2 - len(axes)), *axes, blank], []
