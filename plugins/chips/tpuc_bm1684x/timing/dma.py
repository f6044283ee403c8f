"""Cycles of DMA commands.

A transfer takes bytes / rate, and what it takes to start. A short run counts as a line (256 bytes on BM1684X). Pages of
DDR (4 KiB there) are interleaved over four channels: the library counts which channels the planes start in or cover
within four pages from the first element, and scales the rate by the fraction of channels in use. It computes in
float32, rounding after each division and each multiplication; this module does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod

import numpy as np
from tpuc.api import Instruction

from tpuc_bm1684x.isa import (
    ChannelBroadcast,
    Fill,
    LinearCopy,
    MatrixCopy,
    RowGather,
    RowScatter,
    TensorCopy,
    TransposeCW,
    TransposeNC,
)
from tpuc_bm1684x.isa.dma import TensorTransfer, dma_strides
from tpuc_bm1684x.isa.rates import Rates, Way
from tpuc_bm1684x.isa.types import DType, Shape4, Strides

CHANNELS = 4
"""DDR channels, interleaved by pages. A transfer that starts in fewer channels is proportionally slower."""
PLANE_BYTES = 16
"""Transposes without strides count planes as if they started at multiples of this."""
_APART: Strides = (0, 0, 0, 1)
"""Strides that a broadcast without strides is counted with: its rows are not contiguous."""


def dma_cycles(instruction: Instruction, rates: Rates) -> int:
    """Cycles of one DMA command, rounded down to as little as 0."""
    match instruction:
        case TensorCopy():
            return _copy(instruction, instruction.shape, rates)
        case TransposeNC():
            is_plain = instruction.source_strides is None
            return _copy(instruction, instruction.result_shape(), rates, is_plain=is_plain)
        case TransposeCW():
            way = _way(instruction, rates)
            if way.turn is None:
                return _copy(instruction, instruction.result_shape(), rates)
            size = prod(instruction.shape) * instruction.dtype.bytes
            return _elapsed(size, way.turn, rates.scale, way.start)
        case ChannelBroadcast():
            strides = instruction.strides() if instruction.source_strides is not None else (_APART,)
            size = _size(instruction.shape, strides, instruction.dtype, rates)
            return _elapsed(size, rates.fill, rates.scale, _way(instruction, rates).start)
        case Fill():
            strides = instruction.strides or dma_strides(
                instruction.destination, instruction.shape, instruction.dtype, instruction.target
            )
            size = _size(instruction.shape, (strides,), instruction.dtype, rates)
            return _elapsed(size, rates.fill, rates.scale, rates.load.start)
        case MatrixCopy():
            return _matrix(instruction, rates)
        case RowGather() | RowScatter():
            size = instruction.source_size if isinstance(instruction, RowScatter) else instruction.destination_size
            moved = instruction.destination_size[0] * size[1] * size[2] * instruction.dtype.bytes
            return _elapsed(moved, rates.linear, rates.scale, rates.move.start)
        case LinearCopy():
            size = instruction.count * instruction.dtype.bytes
            return _elapsed(size, rates.linear, rates.scale, rates.move.start)
        case _:
            return 1


def _way(transfer: TensorTransfer, rates: Rates) -> Way:
    inside = transfer.target.in_lmem
    return rates.way(from_local=inside(transfer.source), to_local=inside(transfer.destination))


def _copy(copy: TensorTransfer, target: Shape4, rates: Rates, *, is_plain: bool = False) -> int:
    """Cycles of a strided copy; the destination's DDR channels are counted for the shape `target`."""
    source, destination = (_plain_places(strides, copy.dtype) if is_plain else strides for strides in copy.strides())
    size = _f32(_size(copy.shape, (source, destination), copy.dtype, rates))
    into, out_of = copy.target.in_lmem(copy.destination), copy.target.in_lmem(copy.source)
    way = rates.way(from_local=out_of, to_local=into)
    touched = 0  # pages of the source count for the destination too
    for outside, shape, strides in ((not out_of, copy.shape, source), (not into, target, destination)):
        if outside:
            touched |= pages(shape, strides, copy.dtype.bytes, rates.page_bytes)
            size *= CHANNELS / touched.bit_count()
    return _elapsed(size, way.copy, rates.copy_scale, way.start)


def _plain_places(strides: Strides, dtype: DType) -> Strides:
    """Strides that a transpose without strides is counted with: batch stride 0 and aligned planes."""
    _, c, h, w = strides
    whole = PLANE_BYTES // dtype.bytes
    return 0, -(-c // whole) * whole, h, w


def _size(shape: Shape4, sides: Iterable[Strides], dtype: DType, rates: Rates) -> int:
    """Bytes of a transfer with short runs counted as lines. A run is a plane where rows are contiguous, an element
    where there are W strides, else a row.
    """
    n, c, h, w = shape
    sides, line = list(sides), rates.line_bytes
    if all(strides[2] == w for strides in sides):
        return n * c * max(h * w * dtype.bytes, line)
    if any(strides[3] != 1 for strides in sides):
        return prod(shape) * line
    return n * c * h * max(w * dtype.bytes, line)


def _f32(value: float) -> float:
    return float(np.float32(value))


@lru_cache(maxsize=1 << 14)
def pages(shape: Shape4, strides: Strides, item_bytes: int, page_bytes: int) -> int:
    """Bit mask of the DDR channels that a tensor of `shape` with `strides` (elements) uses.

    A plane covers H times the H stride from its start, whatever W is; its offset within a page is ignored. For an H
    stride of 0 the library divides by zero; here the plane then counts as one row.
    """
    n, c, h, w = shape
    covered = -(-(h * strides[2] or w) * item_bytes // page_bytes)
    spans = [(0, 0)]  # first and last start of planes; every page between them is visited
    for count, step in sorted([(n, strides[0] * item_bytes), (c, strides[1] * item_bytes)], key=lambda axis: axis[1]):
        if step <= page_bytes:
            spans = [(first, last + (count - 1) * step) for first, last in spans]
        else:
            steps = range(0, min(count * step, CHANNELS * page_bytes), step)
            spans = [(first + offset, last + offset) for first, last in spans for offset in steps]
    found = 0
    for first, last in spans:
        for page in range(first // page_bytes, min(last // page_bytes + covered, CHANNELS)):
            found |= 1 << page
    return found


def _elapsed(size: float, rate: float, scale: float, start: int) -> int:
    return int(_f32(start + _f32(_f32(_f32(size) / rate) * scale)))


def _matrix(copy: MatrixCopy, rates: Rates) -> int:
    """Cycles of a matrix copy. A piece shorter than a line costs a whole line; a partial last piece costs a
    proportional part.
    """
    loads = copy.target.in_lmem(copy.destination)
    rate = rates.matrix_turn if copy.transpose else rates.matrix_load if loads else rates.matrix_store
    start = rates.load.start if loads else rates.store.start
    size = copy.rows * copy.columns * max(copy.dtype.bytes, rates.line_bytes / copy.width)
    return _elapsed(size, rate, rates.scale, start)
