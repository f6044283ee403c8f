"""DDR transpositions: a command reads and writes rows, where a copy would step by elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tpuc.api import DdrTensor

from tpuc_bm1684x.isa import TransposeCW
from tpuc_bm1684x.operands import dtype_of
from tpuc_bm1684x.timing import cycles


def transposition(target: DdrTensor, source: DdrTensor) -> TransposeCW | None:
    """The fastest such command for a copy; None where a side has no rows, or both have theirs along one dimension."""
    shape = source.shape
    row, column = (_contiguous(shape, side.strides) for side in (source, target))
    if row is None or column is None or row == column:
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
    """The dimension whose elements lie next to each other."""
    return next((axis for axis in range(4) if shape[axis] > 1 and strides[axis] == 1), None)
