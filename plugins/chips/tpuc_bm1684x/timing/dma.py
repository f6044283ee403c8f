"""Cycles of DMA commands.

A transfer takes bytes / rate. A short run counts as a line of 256 bytes. DDR pages of 4 KiB are interleaved over four
channels: the library counts which channels the planes start in or cover within the first 16 KiB from the first element,
and scales the rate by the fraction of channels in use. It computes in float32, rounding after each division and each
multiplication; this module does the same.
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
from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.dma import TensorTransfer, dma_strides
from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.isa.types import DType, Shape4, Strides

LOAD, STORE, MOVE = 58, 44, 28
"""GB/s of loads to local memory, stores from it, and copies within one kind of memory."""
CYCLES_PER_GB = 2**30 / 1e9
"""The library counts 2**30 bytes as a GB, so bytes / (GB/s) needs this factor to give nanoseconds."""
MATRIX_LOAD, MATRIX_STORE, MATRIX_TRANSPOSE = 58.0, 44.0, 43.5
"""Bytes per cycle. Matrix copies, broadcasts and fills count 10**9 bytes as a GB."""
BROADCAST = FILL = 58.0
WIDE, NARROW = 64.0, 32.0
"""Bytes per cycle: `WIDE` for transposes, linear copies and row gathers, `NARROW` for transposes within local
memory.
"""
LINE_BYTES = 256
"""Minimum cost of a contiguous run, in bytes."""
PAGE_BYTES = 4096
CHANNELS = 4
"""DDR channels, interleaved by pages. A transfer that starts in fewer channels is proportionally slower."""
PLANE_BYTES = 16
"""Transposes without strides count planes as if they started at multiples of this."""
_APART: Strides = (0, 0, 0, 1)
"""Strides that a broadcast without strides is counted with: its rows are not contiguous."""


def dma_cycles(instruction: Instruction) -> int:
    """Cycles of one DMA command, rounded down to as little as 0."""
    elapsed = _transfer_cycles(instruction)
    if not isinstance(instruction, DmaInstruction) or instruction.target is BM1684X:
        return elapsed
    return int(elapsed * instruction.target.dma_factor) + instruction.target.dma_start


def _transfer_cycles(instruction: Instruction) -> int:
    match instruction:
        case TensorCopy():
            return _copy(instruction, instruction.shape)
        case TransposeNC():
            return _copy(instruction, instruction.result_shape(), is_plain=instruction.source_strides is None)
        case TransposeCW():
            inside = instruction.target.in_lmem
            local = inside(instruction.source) and inside(instruction.destination)
            return _plain(prod(instruction.shape) * instruction.dtype.bytes, NARROW if local else WIDE)
        case ChannelBroadcast():
            strides = instruction.strides() if instruction.source_strides is not None else (_APART,)
            return _plain(_size(instruction.shape, strides, instruction.dtype), BROADCAST)
        case Fill():
            strides = instruction.strides or dma_strides(
                instruction.destination, instruction.shape, instruction.dtype, instruction.target
            )
            return _plain(_size(instruction.shape, (strides,), instruction.dtype), FILL)
        case MatrixCopy():
            return _matrix(instruction)
        case RowGather() | RowScatter():
            size = instruction.source_size if isinstance(instruction, RowScatter) else instruction.destination_size
            return _plain(instruction.destination_size[0] * size[1] * size[2] * instruction.dtype.bytes, WIDE)
        case LinearCopy():
            return _plain(instruction.count * instruction.dtype.bytes, WIDE)
        case _:
            return 1


def _copy(copy: TensorTransfer, target: Shape4, *, is_plain: bool = False) -> int:
    """Cycles of a strided copy; the destination's DDR channels are counted for the shape `target`."""
    source, destination = (_plain_places(strides, copy.dtype) if is_plain else strides for strides in copy.strides())
    size = _f32(_size(copy.shape, (source, destination), copy.dtype))
    into, out_of = copy.target.in_lmem(copy.destination), copy.target.in_lmem(copy.source)
    rate = MOVE if into == out_of else LOAD if into else STORE
    touched = 0  # pages of the source count for the destination too
    for outside, shape, strides in ((not out_of, copy.shape, source), (not into, target, destination)):
        if outside:
            touched |= pages(shape, strides, copy.dtype.bytes)
            size *= CHANNELS / touched.bit_count()
    return int(_f32(_f32(size / rate) * CYCLES_PER_GB))


def _plain_places(strides: Strides, dtype: DType) -> Strides:
    """Strides that a transpose without strides is counted with: batch stride 0 and aligned planes."""
    _, c, h, w = strides
    whole = PLANE_BYTES // dtype.bytes
    return 0, -(-c // whole) * whole, h, w


def _size(shape: Shape4, sides: Iterable[Strides], dtype: DType) -> int:
    """Bytes of a transfer with short runs counted as lines. A run is a plane where rows are contiguous, an element
    where there are W strides, else a row.
    """
    n, c, h, w = shape
    sides = list(sides)
    if all(strides[2] == w for strides in sides):
        return n * c * max(h * w * dtype.bytes, LINE_BYTES)
    if any(strides[3] != 1 for strides in sides):
        return prod(shape) * LINE_BYTES
    return n * c * h * max(w * dtype.bytes, LINE_BYTES)


def _f32(value: float) -> float:
    return float(np.float32(value))


@lru_cache(maxsize=1 << 14)
def pages(shape: Shape4, strides: Strides, item_bytes: int) -> int:
    """Bit mask of the DDR channels that a tensor of `shape` with `strides` (elements) uses.

    A plane covers H times the H stride from its start, whatever W is; its offset within a page is ignored. For an H
    stride of 0 the library divides by zero; here the plane then counts as one row.
    """
    n, c, h, w = shape
    covered = -(-(h * strides[2] or w) * item_bytes // PAGE_BYTES)
    spans = [(0, 0)]  # first and last start of planes; every page between them is visited
    for count, step in sorted([(n, strides[0] * item_bytes), (c, strides[1] * item_bytes)], key=lambda axis: axis[1]):
        if step <= PAGE_BYTES:
            spans = [(first, last + (count - 1) * step) for first, last in spans]
        else:
            steps = range(0, min(count * step, CHANNELS * PAGE_BYTES), step)
            spans = [(first + offset, last + offset) for first, last in spans for offset in steps]
    found = 0
    for first, last in spans:
        for page in range(first // PAGE_BYTES, min(last // PAGE_BYTES + covered, CHANNELS)):
            found |= 1 << page
    return found


def _plain(size: float, rate: float) -> int:
    return int(_f32(_f32(size) / rate))


def _matrix(copy: MatrixCopy) -> int:
    """Cycles of a matrix copy. A piece shorter than a line costs a whole line; a partial last piece costs a
    proportional part.
    """
    rate = (
        MATRIX_TRANSPOSE if copy.transpose else MATRIX_LOAD if copy.target.in_lmem(copy.destination) else MATRIX_STORE
    )
    return _plain(copy.rows * copy.columns * max(copy.dtype.bytes, LINE_BYTES / copy.width), rate)
