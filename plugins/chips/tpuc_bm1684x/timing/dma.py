"""Cycles of DMA commands.

A transfer costs bytes / rate. Short runs count as a line of 256 bytes. DDR is spread over four channels in pages of
4 KiB: the library looks at the first 16 KiB behind the first element, counts the pages that planes begin in or cover
there, and divides the rate by what is missing. It computes in float32, with one rounding behind each division and each
product; so does this module.
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
from tpuc_bm1684x.isa.types import DType, Shape4, Strides, in_lmem

LOAD, STORE, MOVE = 58, 44, 28
"""GB/s to local memory, from it, and within one kind of memory."""
CYCLES_PER_GB = 2**30 / 1e9
"""Bytes divided by GB/s are nanoseconds, where the library takes 2**30 bytes as a GB."""
MATRIX_LOAD, MATRIX_STORE, MATRIX_TRANSPOSE = 58.0, 44.0, 43.5
"""Bytes per cycle; here, in broadcasts and in fills a GB has 10**9 bytes."""
BROADCAST = FILL = 58.0
WIDE, NARROW = 64.0, 32.0
"""Bytes per cycle of transposes, linear copies and row gathers, and of transposes within local memory."""
LINE_BYTES = 256
"""A contiguous run costs at least this much."""
PAGE_BYTES = 4096
CHANNELS = 4
"""DDR is spread over so many channels in pages; a transfer that begins in fewer of them is slower in proportion."""
PLANE_BYTES = 16
"""Planes of a transpose without strides count as beginning at multiples of this."""
_APART: Strides = (0, 0, 0, 1)
"""A broadcast without strides counts as one whose rows do not follow one another."""


def dma_cycles(instruction: Instruction) -> int:
    """Cycles of one DMA command; 0 where it is less than one."""
    match instruction:
        case TensorCopy():
            return _copy(instruction, instruction.shape)
        case TransposeNC():
            return _copy(instruction, instruction.result_shape(), is_plain=instruction.source_strides is None)
        case TransposeCW():
            local = in_lmem(instruction.source) and in_lmem(instruction.destination)
            return _plain(prod(instruction.shape) * instruction.dtype.bytes, NARROW if local else WIDE)
        case ChannelBroadcast():
            strides = instruction.strides() if instruction.source_strides is not None else (_APART,)
            return _plain(_size(instruction.shape, strides, instruction.dtype), BROADCAST)
        case Fill():
            strides = instruction.strides or dma_strides(instruction.destination, instruction.shape, instruction.dtype)
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
    """A strided copy; the pages of the destination are counted for the shape `target`."""
    source, destination = (_plain_places(strides, copy.dtype) if is_plain else strides for strides in copy.strides())
    size = _f32(_size(copy.shape, (source, destination), copy.dtype))
    into, out_of = in_lmem(copy.destination), in_lmem(copy.source)
    rate = MOVE if into == out_of else LOAD if into else STORE
    touched = 0  # pages of the source count for the destination too
    for outside, shape, strides in ((not out_of, copy.shape, source), (not into, target, destination)):
        if outside:
            touched |= pages(shape, strides, copy.dtype.bytes)
            size *= CHANNELS / touched.bit_count()
    return int(_f32(_f32(size / rate) * CYCLES_PER_GB))


def _plain_places(strides: Strides, dtype: DType) -> Strides:
    """Of a transpose without strides: all images count as one place, and planes are aligned."""
    _, c, h, w = strides
    whole = PLANE_BYTES // dtype.bytes
    return 0, -(-c // whole) * whole, h, w


def _size(shape: Shape4, sides: Iterable[Strides], dtype: DType) -> int:
    """Bytes that the runs of a transfer count as: planes where all rows follow one another, elements with W strides."""
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
    """The DDR channels, a bit each, that a tensor of `shape` with `strides` (elements) begins or lies in.

    A plane covers H times the H stride from its start on, whatever W is; where it starts within its page does not
    count. An H stride of 0 would cover nothing, and the library divides by zero there; here the plane is a row then.
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
    """Pieces below a line cost a line each, in proportion for the last one."""
    rate = MATRIX_TRANSPOSE if copy.transpose else MATRIX_LOAD if in_lmem(copy.destination) else MATRIX_STORE
    return _plain(copy.rows * copy.columns * max(copy.dtype.bytes, LINE_BYTES / copy.width), rate)
