"""Strided copies of any rank as the four-dimensional moves of the chip."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import Move, Shape4

from tpuc_bm1684x.isa import DType, TensorCopy
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.operands import MAX_EXTENT
from tpuc_bm1684x.timing import cycles

Axes: TypeAlias = "list[tuple[int, int, int]]"
"""Extent, source stride and target stride, outermost first."""

MAX_COPIES = 1024
"""Beyond this an op should be another one: a command costs about as much as 4 KiB of data."""

_RANK = 4


@dataclass(frozen=True)
class Copy:
    """As `Move`, of any rank."""

    operand: int
    shape: tuple[int, ...]
    source_offset: int
    source_strides: tuple[int, ...]
    target_offset: int
    target_strides: tuple[int, ...]
    fill: float | None = None

    def split(self, axis: int) -> list[Copy]:
        """One copy per index of a dimension."""
        shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
        return [
            dataclasses.replace(
                self,
                shape=shape,
                source_offset=self.source_offset + index * self.source_strides[axis],
                target_offset=self.target_offset + index * self.target_strides[axis],
            )
            for index in range(self.shape[axis])
        ]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides = [1] * len(shape)
    for index in range(len(shape) - 2, -1, -1):
        strides[index] = strides[index + 1] * shape[index + 1]
    return tuple(strides)


def moves_of(copy: Copy, dtype: DType) -> Iterator[Move]:
    """The fewest moves: dimensions that are contiguous on both sides are one, the largest four stay in a move."""
    axes = [axis for axis in zip(copy.shape, copy.source_strides, copy.target_strides, strict=True) if axis[0] > 1]
    axes = [part for axis in _merged(axes) for part in _within_field(axis)]
    kept = sorted(sorted(range(len(axes)), key=lambda index: -axes[index][0])[:_RANK])
    loops = [axis for index, axis in enumerate(axes) if index not in kept]
    inner = _fastest([axes[index] for index in kept], dtype)
    for place in itertools.product(*(range(extent) for extent, _, _ in loops)):
        source = copy.source_offset + sum(i * axis[1] for i, axis in zip(place, loops, strict=True))
        target = copy.target_offset + sum(i * axis[2] for i, axis in zip(place, loops, strict=True))
        yield Move(copy.operand, _four(inner, 0), source, _four(inner, 1), target, _four(inner, 2), copy.fill)


def _fastest(axes: Axes, dtype: DType) -> Axes:
    """The axes in the order that the engine takes least time for: it works row by row, and rows may have steps."""
    # The engine divides by strides, those of single elements too: none may be 0.
    padding = [(1, 1, 1)] * (_RANK - len(axes))
    orders = [[*padding, *order] for order in itertools.permutations(axes)]
    return min(orders, key=lambda order: _cycles(order, dtype)) if len(orders) > 1 else orders[0]


def _cycles(axes: Axes, dtype: DType) -> int:
    return cycles(
        TensorCopy(
            source=DDR_BASE,
            destination=DDR_BASE,
            shape=_four(axes, 0),
            dtype=dtype,
            source_strides=_four(axes, 1),
            destination_strides=_four(axes, 2),
        )
    )


def _merged(axes: Axes) -> Axes:
    """Neighbours that step as one dimension."""
    merged: Axes = []
    for extent, source, target in axes:
        if merged:
            outer, outer_source, outer_target = merged[-1]
            if outer_source == source * extent and outer_target == target * extent:
                merged[-1] = (outer * extent, source, target)
                continue
        merged.append((extent, source, target))
    return merged


def _within_field(axis: tuple[int, int, int]) -> Axes:
    """A dimension beyond the size field as two; one of prime extent is cut to single elements."""
    extent, source, target = axis
    if extent <= MAX_EXTENT:
        return [axis]
    inner = next((size for size in range(MAX_EXTENT, 0, -1) if extent % size == 0), 1)
    return [*_within_field((extent // inner, source * inner, target * inner)), (inner, source, target)]


def _four(axes: Axes, item: int) -> Shape4:
    n, c, h, w = (axis[item] for axis in axes)
    return (n, c, h, w)
