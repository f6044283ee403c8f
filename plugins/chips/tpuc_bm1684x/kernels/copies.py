"""Decompose strided copies of any rank into four-dimensional DMA moves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from tpuc.api import DdrTensor, Instruction, Move, ScalarType
from tpuc_chip_parts.copies import Axes, Copy, four, within_field

from tpuc_bm1684x.isa import Fill, LinearCopy, TransposeCW
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of
from tpuc_bm1684x.rearrangement import fastest_move
from tpuc_bm1684x.timing import cycles

_RANK = 4
_UNIT = 4
"""Offsets matter to the cost of a command only modulo this many elements."""
_MOST_BLOCKS = 64
"""Maximum number of contiguous block copies that replace one strided copy."""
_COMMAND = 64
"""Cycles that each additional command must save."""
_Axis = tuple[int, int, int]


def moves_of(copy: Copy, element: ScalarType) -> Iterator[Move]:
    """The fastest decomposition of a copy into moves. Dimensions that are contiguous on both sides are merged."""
    divided = [part for axis in copy.axes() for part in _divided(axis)]
    for axes, source_start, target_start in within_field(divided, MAX_EXTENT):
        starts = copy.source_offset + source_start, copy.target_offset + target_start
        offsets = None if copy.fill is not None else (starts[0] % _UNIT, starts[1] % _UNIT)
        inner, loops = _fastest(tuple(axes), offsets, element)
        for place in itertools.product(*(range(extent) for extent, _, _ in loops)):
            source, target = (
                start + sum(i * axis[side] for i, axis in zip(place, loops, strict=True))
                for side, start in enumerate(starts, 1)
            )
            yield Move(copy.operand, four(inner, 0), source, four(inner, 1), target, four(inner, 2), copy.fill)


def copy_cycles(copy: Copy, element: ScalarType) -> int:
    """Cycles of all moves of a copy, executed sequentially."""
    item = element.bits // 8
    return sum(
        cycles(
            fastest_move(
                DdrTensor(DDR_BASE + move.target_offset * item, move.shape, move.target_strides, element),
                DdrTensor(DDR_BASE + move.source_offset * item, move.shape, move.source_strides, element),
            )
        )
        for move in moves_of(copy, element)
    )


@lru_cache(maxsize=4096)
def _fastest(axes: tuple[_Axis, ...], offsets: tuple[int, int] | None, element: ScalarType) -> tuple[Axes, Axes]:
    """The fastest order of four axes for one move, and the axes along which the move is repeated.

    `offsets`: start offsets of both sides; None for a fill. Results are cached, because planning requests them
    repeatedly.
    """
    choices: list[tuple[int, Axes, Axes]] = []
    for loops in _loops(axes):
        inner = [axis for index, axis in enumerate(axes) if index not in loops]
        order, cost = _ordered(tuple(inner), offsets, element)
        outer = [axes[index] for index in loops]
        count = prod(extent for extent, _, _ in outer)
        choices.append((count * cost + (count - 1) * _COMMAND, order, outer))
    return min(choices, key=lambda choice: choice[0])[1:]


def _loops(axes: Sequence[_Axis]) -> Iterator[tuple[int, ...]]:
    """Candidate sets of axes (by index) to repeat a move along: the axes beyond four, or all axes around contiguous
    blocks.
    """
    beyond = max(len(axes) - _RANK, 0)
    # The smallest first: the first of equal choices is used.
    yield from sorted(
        itertools.combinations(range(len(axes)), beyond), key=lambda loops: prod(axes[index][0] for index in loops)
    )
    last = axes[-1] if axes else (1, 1, 1)
    if last[1:] == (1, 1) and beyond < len(axes) - 1 and prod(extent for extent, _, _ in axes[:-1]) <= _MOST_BLOCKS:
        yield tuple(range(len(axes) - 1))


def _ordered(axes: tuple[_Axis, ...], offsets: tuple[int, int] | None, element: ScalarType) -> tuple[Axes, int]:
    """Four axes in the fastest order, and the cycles of the move. The engine works row by row, and rows may be
    strided.
    """
    # The engine divides by strides, those of single elements too: none may be 0.
    padding = [(1, 1, 1)] * (_RANK - len(axes))
    orders: dict[tuple[_Axis, ...], None] = dict.fromkeys((*padding, *order) for order in itertools.permutations(axes))
    first = next(iter(orders))
    command = _command(first, offsets, element)
    if isinstance(command, LinearCopy | TransposeCW):  # which take the same time in any order
        return [*first], cycles(command)
    orders |= dict.fromkeys(itertools.permutations((*padding, *axes)))
    costs = [(cycles(_command(order, offsets, element)), order) for order in orders]
    cost, order = min(costs, key=lambda choice: choice[0])
    return [*order], cost


def _command(axes: Sequence[_Axis], offsets: tuple[int, int] | None, element: ScalarType) -> Instruction:
    """The command for a move."""
    shape, dtype = four([*axes], 0), dtype_of(element)
    if offsets is None:
        return Fill(destination=DDR_BASE, shape=shape, dtype=dtype, value=0, strides=four([*axes], 2))
    source, target = (
        DdrTensor(DDR_BASE + offset * dtype.bytes, shape, four([*axes], side), element)
        for side, offset in enumerate(offsets, 1)
    )
    return fastest_move(target, source)


def _divided(axis: _Axis) -> Axes:
    """Split a dimension beyond the size field in two that fit, if it has such a divisor."""
    extent, source, target = axis
    if extent <= MAX_EXTENT:
        return [axis]
    inner = _largest_divisor(extent)
    if extent // inner > MAX_EXTENT:
        return [axis]
    return [(extent // inner, source * inner, target * inner), (inner, source, target)]


@lru_cache(maxsize=4096)
def _largest_divisor(extent: int) -> int:
    """The largest divisor that fits the size field."""
    return next(size for size in range(MAX_EXTENT, 0, -1) if extent % size == 0)
