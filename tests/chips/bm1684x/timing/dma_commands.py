"""Random DMA commands of every class: shapes, strides of every dimension, both directions, all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc.api import Instruction
from tpuc_bm1684x.isa import (
    ChannelBroadcast,
    DType,
    Fill,
    LinearCopy,
    MatrixCopy,
    RowGather,
    RowScatter,
    TensorCopy,
    TransposeCW,
    TransposeNC,
)
from tpuc_bm1684x.isa.dma import dma_strides
from tpuc_bm1684x.isa.geometry import DDR_BASE, L2_BASE, LMEM_BASE, lane_address, lmem
from tpuc_bm1684x.isa.types import Shape4, Strides, in_lmem

from tests.chips.bm1684x.draw import Draw

TYPES = (DType.INT8, DType.F16, DType.BF16, DType.INT16, DType.F32, DType.INT32)
PLACES = (DDR_BASE + 0x100000, DDR_BASE + 0x500000, DDR_BASE + 0x900000, LMEM_BASE, lmem(0x8000), L2_BASE)


def extents(draw: Draw) -> Shape4:
    """Few rows or many, long or short: sizes are spread evenly over their logarithms."""
    bits = draw.pick((1, 7, 4, 10), (2, 9, 6, 6), (0, 4, 8, 8), (3, 5, 5, 5), (0, 0, 0, 14), (0, 10, 0, 2))
    n, c, h, w = (int(2 ** draw.rng.uniform(0, most)) for most in bits)
    return n, c, h, w


def steps(draw: Draw, shape: Shape4, any_w: bool = True) -> Strides:
    """Natural strides with gaps, all of them stretched, or one that has nothing to do with the others.

    The H stride is never 0: the library divides by zero there (see `pages` of the timing model).
    """
    _, c, h, w = shape
    row = w + draw.pick(0, 0, 0, draw.number(0, 100), draw.number(0, 5000))
    plane = h * row + draw.pick(0, 0, 0, draw.number(0, 100), draw.number(0, 9000))
    found = [c * plane + draw.pick(0, 0, draw.number(0, 9000)), plane, row, 1]
    if any_w and draw.rng.random() < 0.2:
        wider = draw.number(2, 9)
        found = [step * wider for step in found]
    for axis in range(4 if any_w else 3):
        if draw.rng.random() < 0.12:
            found[axis] = int(2 ** draw.rng.uniform(0, 15))
        elif axis != 2 and draw.rng.random() < 0.05:
            found[axis] = 0
    return found[0], found[1], found[2], found[3]


def _side(draw: Draw, address: int, shape: Shape4, dtype: DType, any_w: bool = True) -> Strides:
    if in_lmem(address) and draw.rng.random() < 0.6:
        return dma_strides(address, shape, dtype)
    return steps(draw, shape, any_w)


def copy(draw: Draw) -> Instruction:
    shape, dtype = extents(draw), draw.pick(*TYPES)
    source, destination = draw.pick(*PLACES), draw.pick(*PLACES)
    if draw.rng.random() < 0.15:
        return TensorCopy(source=source, destination=destination, shape=shape, dtype=dtype)
    return TensorCopy(
        source=source,
        destination=destination,
        shape=shape,
        dtype=dtype,
        source_strides=_side(draw, source, shape, dtype),
        destination_strides=_side(draw, destination, shape, dtype),
    )


def reshaping_copy(draw: Draw) -> Instruction:
    n, c, h, w = extents(draw)
    dtype = draw.pick(*TYPES)
    source, destination = draw.pick(*PLACES), draw.pick(*PLACES)
    target = draw.pick((n, h, c, w), (w, c, h, n), (1, n * c, h, w), (n, c, h * w, 1), (c, n, w, h))
    if max(target) > 65535:
        return reshaping_copy(draw)
    return TensorCopy(
        source=source,
        destination=destination,
        shape=(n, c, h, w),
        dtype=dtype,
        destination_shape=target,
        source_strides=_side(draw, source, (n, c, h, w), dtype),
        destination_strides=_side(draw, destination, target, dtype),
    )


def _transpose(draw: Draw, kind: type[TransposeNC | TransposeCW]) -> Instruction:
    shape, dtype = extents(draw), draw.pick(DType.INT8, DType.F16, DType.F32)
    source, destination = draw.pick(*PLACES), draw.pick(*PLACES)
    plain = kind(source=source, destination=destination, shape=shape, dtype=dtype)
    # Within one memory the vendor's library states strides in all N/C transposes.
    if draw.rng.random() < 0.3 and (kind is TransposeCW or in_lmem(source) != in_lmem(destination)):
        return plain
    return kind(
        source=source,
        destination=destination,
        shape=shape,
        dtype=dtype,
        source_strides=_side(draw, source, shape, dtype, any_w=False),
        destination_strides=_side(draw, destination, plain.result_shape(), dtype, any_w=False),
    )


def transpose_nc(draw: Draw) -> Instruction:
    return _transpose(draw, TransposeNC)


def transpose_cw(draw: Draw) -> Instruction:
    return _transpose(draw, TransposeCW)


def broadcast(draw: Draw) -> Instruction:
    n, _, h, w = extents(draw)
    dtype, channels = draw.pick(*TYPES), draw.number(1, 65)
    source, destination = draw.pick(*PLACES), lmem(lane_address(draw.number(0, 65 - channels), 0x8000))
    strides: dict[str, Any] = {}
    if draw.rng.random() < 0.7:
        strides["source_strides"] = steps(draw, (n, 1, h, w), any_w=False)
        strides["destination_strides"] = _side(draw, destination, (n, channels, h, w), dtype, any_w=False)
    return ChannelBroadcast(
        source=source, destination=destination, shape=(n, 1, h, w), channels=channels, dtype=dtype, **strides
    )


def fill(draw: Draw) -> Instruction:
    shape = extents(draw)
    strides = None if draw.rng.random() < 0.4 else steps(draw, shape)
    return Fill(destination=draw.pick(*PLACES), shape=shape, dtype=draw.pick(*TYPES), value=0, strides=strides)


def matrix(draw: Draw) -> Instruction:
    transpose = draw.rng.random() < 0.4
    load = transpose or draw.rng.random() < 0.5
    rows, columns = int(2 ** draw.rng.uniform(0, 9)), int(2 ** draw.rng.uniform(0, 11))
    needed = rows if transpose else columns
    width = draw.number(1, min(needed, 300) + 1)
    pieces, dtype = -(-needed // width), draw.pick(DType.INT8, DType.F16, DType.F32)
    plane = -(-width // dtype.vector) * dtype.vector
    return MatrixCopy(
        source=PLACES[0] if load else LMEM_BASE,
        destination=LMEM_BASE if load else PLACES[0],
        rows=rows,
        columns=columns,
        row_stride=columns + draw.pick(0, draw.number(0, 5000)),
        width=width,
        pieces=pieces,
        local_strides=(-(-pieces // 64) * plane, plane),
        dtype=dtype,
        transpose=transpose,
    )


def linear(draw: Draw) -> Instruction:
    count = int(2 ** draw.rng.uniform(0, 16))
    return LinearCopy(source=PLACES[0], destination=PLACES[1], count=count, dtype=draw.pick(*TYPES))


def _rows(draw: Draw, kind: type[RowGather | RowScatter]) -> Instruction:
    c, moved, others, w = (int(2 ** draw.rng.uniform(0, most)) for most in (5, 10, 10, 11))
    shared, one_index = draw.pick((1, c), (c, 1), (c, c), (c, c))  # channels are those of source and index
    source, target = ((others, moved) if kind is RowGather else (moved, others))[:2]
    gap = draw.pick(0, 300)
    return kind(
        source=PLACES[0],
        source_size=(shared, source, w),
        source_strides=(source * (w + gap) if shared > 1 else 0, w + gap),
        destination=PLACES[1],
        destination_size=(c, target, w),
        destination_strides=(target * (w + gap), w + gap),
        index=PLACES[2],
        index_size=(one_index, moved),
        index_strides=(moved if one_index > 1 else 0, 1),
        dtype=draw.pick(DType.INT8, DType.F16, DType.F32),
    )


def row_gather(draw: Draw) -> Instruction:
    return _rows(draw, RowGather)


def row_scatter(draw: Draw) -> Instruction:
    return _rows(draw, RowScatter)


KINDS: tuple[Callable[[Draw], Instruction], ...] = (
    copy,
    copy,
    copy,
    reshaping_copy,
    transpose_nc,
    transpose_cw,
    broadcast,
    fill,
    matrix,
    linear,
    row_gather,
    row_scatter,
)
