"""Choose the fastest DDR command for a strided copy. A transposing command can access whole rows where a plain copy
would access single elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tpuc.api import DdrTensor, ScalarType, Shape4

from tpuc_bm1684x.isa import LinearCopy, TensorCopy, TransposeCW
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.operands import dtype_of
from tpuc_bm1684x.timing import cycles

_WIDER = {16: ScalarType("i16"), 32: ScalarType("i32")}
"""Element types, by bits, that move a short run of narrower elements as one element."""


def fastest_move(target: DdrTensor, source: DdrTensor, chip: Target = BM1684X) -> LinearCopy | TensorCopy | TransposeCW:
    """The fastest command for a copy in DDR. Short runs are moved as single wider elements, which a transposing command
    can also move.
    """
    shape, dtype = source.shape, dtype_of(source.element)
    if is_block(shape, source.strides) and is_block(shape, target.strides):
        return LinearCopy(source=source.address, destination=target.address, count=prod(shape), dtype=dtype)
    copy = TensorCopy(
        source=source.address,
        destination=target.address,
        shape=shape,
        dtype=dtype,
        source_strides=source.strides,
        destination_strides=target.strides,
    )
    turned = transposition(*_with_runs_as_elements(target, source))
    return copy if turned is None else min(turned, copy, key=lambda move: cycles(move.on(chip)))


def is_block(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if the elements are contiguous."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def transposition(target: DdrTensor, source: DdrTensor) -> TransposeCW | None:
    """The fastest transposing command for a copy. A side without contiguous rows is treated as rows of one element.

    None if neither side has contiguous rows, if both are contiguous along the same dimension, or if no dimension of
    extent 1 is free for the one-element rows.
    """
    shape = source.shape
    row, column = (_contiguous(shape, side.strides) for side in (source, target))
    if row == column:
        return None
    single = next((axis for axis in range(4) if shape[axis] == 1), None)
    row, column = (single if axis is None else axis for axis in (row, column))
    if row is None or column is None:
        return None
    outer = [axis for axis in range(4) if axis not in (row, column)]
    choices = [
        TransposeCW(
            source=source.address,
            destination=target.address,
            shape=(shape[n], shape[column], shape[h], shape[row]),
            dtype=dtype_of(source.element),
            source_strides=(source.strides[n], source.strides[column], source.strides[h], 1),
            destination_strides=(target.strides[n], target.strides[row], target.strides[h], 1),
        )
        for n, h in itertools.permutations(outer)
    ]
    return min(choices, key=cycles)


def _contiguous(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The dimension whose elements are contiguous, None if there is none."""
    return next((axis for axis in range(4) if shape[axis] > 1 and strides[axis] == 1), None)


def _with_runs_as_elements(target: DdrTensor, source: DdrTensor) -> tuple[DdrTensor, DdrTensor]:
    """Rewrite the copy with one wide element per contiguous run. Returns the copy unchanged where the chip has no
    element of that width, or where an address or stride is not a multiple of the run length.
    """
    axis, shape = _contiguous(source.shape, source.strides), source.shape
    if axis is None or target.strides[axis] != 1:
        return target, source
    run, item = shape[axis], source.element.bits // 8
    others = [index for index in range(4) if index != axis and shape[index] > 1]
    wider = _WIDER.get(run * source.element.bits)
    places = (
        place
        for side in (target, source)
        for place in (side.address // item, *(side.strides[index] for index in others))
    )
    if wider is None or any(place % run for place in places):
        return target, source
    single = _four([1 if index == axis else extent for index, extent in enumerate(shape)])
    one, other = (
        replace(side, shape=single, strides=_four([max(step // run, 1) for step in side.strides]), element=wider)
        for side in (target, source)
    )
    return one, other


def _four(values: Sequence[int]) -> Shape4:
    n, c, h, w = values
    return (n, c, h, w)
