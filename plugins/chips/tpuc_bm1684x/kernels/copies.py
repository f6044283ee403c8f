"""Decompose strided copies of any rank into the chip's four-dimensional moves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from tpuc.api import Move
from tpuc_chip_parts.copies import Axes, Copy, four, within_field

from tpuc_bm1684x.isa import DType, TensorCopy
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.operands import MAX_EXTENT
from tpuc_bm1684x.timing import cycles

_RANK = 4


def moves_of(copy: Copy, dtype: DType) -> Iterator[Move]:
    """The fewest moves: dimensions that are contiguous on both sides are one, the largest four stay in a move."""
    divided = [part for axis in copy.axes() for part in _divided(axis)]
    for axes, source_start, target_start in within_field(divided, MAX_EXTENT):
        kept = sorted(sorted(range(len(axes)), key=lambda index: -axes[index][0])[:_RANK])
        loops = [axis for index, axis in enumerate(axes) if index not in kept]
        inner = _fastest(tuple(axes[index] for index in kept), dtype)
        for place in itertools.product(*(range(extent) for extent, _, _ in loops)):
            source = copy.source_offset + source_start + sum(i * axis[1] for i, axis in zip(place, loops, strict=True))
            target = copy.target_offset + target_start + sum(i * axis[2] for i, axis in zip(place, loops, strict=True))
            yield Move(copy.operand, four(inner, 0), source, four(inner, 1), target, four(inner, 2), copy.fill)


@lru_cache(maxsize=4096)
def _fastest(axes: tuple[tuple[int, int, int], ...], dtype: DType) -> Axes:
    """The axes in the order that the engine takes least time for: it works row by row, and rows may have steps.

    Kept, because planning asks again and again.
    """
    # The engine divides by strides, those of single elements too: none may be 0.
    padding = [(1, 1, 1)] * (_RANK - len(axes))
    orders = [[*padding, *order] for order in itertools.permutations(axes)]
    return min(orders, key=lambda order: _cycles(order, dtype)) if len(orders) > 1 else orders[0]


def _cycles(axes: Axes, dtype: DType) -> int:
    return cycles(
        TensorCopy(
            source=DDR_BASE,
            destination=DDR_BASE,
            shape=four(axes, 0),
            dtype=dtype,
            source_strides=four(axes, 1),
            destination_strides=four(axes, 2),
        )
    )


def _divided(axis: tuple[int, int, int]) -> Axes:
    """A dimension beyond the size field as two that are not, where it has such divisors."""
    extent, source, target = axis
    if extent <= MAX_EXTENT:
        return [axis]
    inner = next(size for size in range(MAX_EXTENT, 0, -1) if extent % size == 0)
    if extent // inner > MAX_EXTENT:
        return [axis]
    return [(extent // inner, source * inner, target * inner), (inner, source, target)]
