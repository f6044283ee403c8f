"""Cycles per instruction, profile `vendor`: the vendor compiler's own estimator, measured (README.md, "Timing")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import Command, Engine, Instruction, Timeline, make_timeline

from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    ChannelBroadcast,
    CompareSelect,
    Conv,
    Fill,
    Gather,
    GatherLines,
    GatherLinesOp,
    GatherOp,
    LaneTransfer,
    LinearCopy,
    MatMul,
    MatrixCopy,
    PoolOrDepthwise,
    Requantise,
    RequantiseOp,
    RowGather,
    RowScatter,
    ScaleBias,
    SpecialFunction,
    SpecialOp,
    SplitMatMul,
    TensorCopy,
    TransferOp,
    TransposeCW,
    TransposeNC,
)
from tpuc_bm1684x.isa.dma import TensorTransfer
from tpuc_bm1684x.isa.geometry import DDR_BASE, EU_BYTES, LANES
from tpuc_bm1684x.isa.types import DType, Layout, Operand, Shape4, Source, Strides, in_lmem

LOAD, STORE, MOVE = 58e9 / 2**30, 44e9 / 2**30, 28e9 / 2**30
"""Bytes per cycle from DDR, to DDR, and within one memory: 58, 44 and 28 GB/s, with giga taken as 2**30."""
PLAIN_LOAD, PLAIN_STORE = 58.0, 44.0
"""The same for matrices, broadcasts and fills, where giga is 10**9."""
LINE_BYTES = 256
"""A contiguous run costs at least this much."""
PAGE_BYTES = 4096
CHANNELS = 4
"""DDR is spread over 4 channels in pages; a transfer that touches fewer of them is slower in proportion."""
BANK_BYTES = 0x4000
DIVISION_CYCLES = 31


def cycles(instruction: Instruction) -> int:
    """Cycles of one instruction alone; at least 1."""
    return max(1, _compute(instruction) if instruction.engine is Engine.COMPUTE else _dma(instruction))


def timeline(groups: Sequence[tuple[Sequence[Command], Sequence[Command]]]) -> list[Timeline]:
    """When each command of each (compute, DMA) group runs; groups follow one another."""
    done = 0
    timelines: list[Timeline] = []
    for compute, dma in groups:
        timelines.append(make_timeline({Engine.COMPUTE: compute, Engine.DMA: dma}, cycles, done))
        done = max(done, timelines[-1].cycles)
    return timelines


# -- compute -----------------------------------------------------------------------------------------------------------


def _slots(address: int, channels: int) -> int:
    return -(-(Operand(address, DType.INT8).lane + channels) // LANES)


def _vectors(result: Operand, shape: Shape4, item_bytes: int) -> int:
    """Vector steps of an element-wise command."""
    n, c, h, w = shape
    return n * _slots(result.address, c) * -(-h * w * item_bytes // EU_BYTES)


def _compute(instruction: Instruction) -> int:
    match instruction:
        case Conv():
            return _conv(instruction)
        case PoolOrDepthwise():
            return _pool(instruction)
        case Arithmetic():
            return _arithmetic(instruction)
        case Requantise():
            return _requantise(instruction)
        case SpecialFunction():
            steps = {SpecialOp.POLYNOMIAL: 1, SpecialOp.RSQRT: 10}.get(instruction.operation, 1) * max(
                instruction.terms, 1
            )
            return steps * _vectors(instruction.result, instruction.shape, instruction.input.dtype.bytes)
        case ScaleBias():
            return 2 * _vectors(instruction.result, instruction.shape, instruction.result.dtype.bytes)
        case CompareSelect():
            widest = max(instruction.result.dtype.bytes, instruction.left.dtype.bytes)
            return 2 * _vectors(instruction.result, instruction.shape, widest)
        case _:
            return _other(instruction)


def _conv(conv: Conv) -> int:
    n, oc, oh, ow = conv.result_shape
    pixels = 16 if conv.input.dtype is DType.F32 else 4
    steps = -(-oh * ow // pixels) * -(-conv.input_shape[0] // conv.packing)
    return n * _slots(conv.result.address, oc) * steps * conv.kernel[0] * conv.kernel[1]


def _requantise(command: Requantise) -> int:
    same = command.input.address == command.result.address
    if command.operation is RequantiseOp.FLOAT_DEQUANTISE:
        same = command.input.offset // BANK_BYTES == command.result.offset // BANK_BYTES
    return (2 if same else 1) * _vectors(command.result, command.shape, 4)


def _pool(pool: PoolOrDepthwise) -> int:
    n, c, oh, ow = pool.shape
    widest = max(pool.input.dtype.bytes, pool.result.dtype.bytes)
    gaps = 3 if pool.stride[1] > 1 else 1
    if pool.kernel[0] == 1:  # rows of the result are separate then
        return gaps * oh * _vectors(pool.result, (n, c, 1, ow), widest) * pool.kernel[1]
    return gaps * _vectors(pool.result, pool.shape, widest) * pool.kernel[0] * pool.kernel[1]


def _arithmetic(command: Arithmetic) -> int:
    sources: list[Source] = [source for source in (command.left, command.right) if source is not None]
    tensors = [source for source in sources if isinstance(source, Operand)]
    widest = max(operand.dtype.bytes for operand in (command.result, *tensors))
    step = max(
        [1, *(operand.layout[3] for operand in (command.result, *tensors) if not isinstance(operand.layout, Layout))]
    )
    step = min(step, EU_BYTES // widest)
    in_place = any(operand.address == command.result.address for operand in tensors)
    both_strided = len(tensors) == 2 and not any(isinstance(operand.layout, Layout) for operand in tensors)
    busy = 2 if in_place or both_strided else 1
    if command.operation is ArithmeticOp.DIV:
        return DIVISION_CYCLES * _vectors(command.result, command.shape, widest) * step
    return busy * _vectors(command.result, command.shape, widest) * step


def _other(instruction: Instruction) -> int:
    match instruction:
        case MatMul():
            return _matmul(instruction)
        case SplitMatMul():
            columns = -(-instruction.right_width * instruction.left.dtype.bytes // EU_BYTES)
            return instruction.result_rows * instruction.depth * _slots(0, instruction.right_pieces) * columns + int(
                instruction.bias is not None
            )
        case LaneTransfer():
            return _transfer(instruction)
        case Gather():
            return _gather(instruction)
        case GatherLines():
            n, c, h, w = instruction.shape
            rows = h if instruction.operation is GatherLinesOp.GATHER else instruction.table_rows
            return n * -(-c // LANES) * rows * -(-w * instruction.dtype.bytes // EU_BYTES)
        case _:
            return 1


def _matmul(product: MatMul) -> int:
    depth = -(-product.depth // (64 if product.left.dtype.bytes == 1 else 32))
    return _slots(product.result.address, product.rows) * -(-product.columns // 4) * depth


def _transfer(transfer: LaneTransfer) -> int:
    n, c, h, w = transfer.shape
    size = transfer.dtype.bytes
    match transfer.operation:
        case TransferOp.BROADCAST:
            busy = 2 if transfer.result == transfer.source else 1
            return busy * n * -(-h * w * size // EU_BYTES)
        case TransferOp.COPY:
            return n * c * _slots(transfer.result, c) * -(-h * w * size // EU_BYTES)
        case TransferOp.STATIC_BROADCAST:
            return -(-w * size // EU_BYTES)
        case TransferOp.STATIC_DISTRIBUTE:
            return -(-c * size // EU_BYTES)
        case _:
            return n * _slots(transfer.result, c) * h * w


def _gather(gather: Gather) -> int:
    n, c, h, w = gather.shape
    if gather.operation in (GatherOp.SCATTER, GatherOp.SCATTER_HZD):
        return n * _slots(gather.result.address, c) * gather.index_size[1]
    same_bank = gather.index.offset // BANK_BYTES == gather.result.offset // BANK_BYTES
    steps = h * w * 3 // 2 if same_bank else h * w
    return n * _slots(gather.result.address, c) * steps


# -- DMA ---------------------------------------------------------------------------------------------------------------


def _dma(instruction: Instruction) -> int:
    match instruction:
        case TensorCopy():
            return _copy(instruction)
        case TransposeNC() | TransposeCW():
            return _copy(instruction)
        case ChannelBroadcast():
            return _plain(instruction.shape, instruction.dtype)
        case Fill():
            return _plain(instruction.shape, instruction.dtype)
        case MatrixCopy():
            return _matrix(instruction)
        case RowGather() | RowScatter():
            return _rows(instruction)
        case LinearCopy():
            return int(instruction.count * instruction.dtype.bytes / _rate(instruction.source, instruction.destination))
        case _:
            return 1


def _rate(source: int, destination: int) -> float:
    if in_lmem(source) == in_lmem(destination):
        return MOVE
    return LOAD if in_lmem(destination) else STORE


def _copy(copy: TensorTransfer) -> int:
    source, destination = copy.strides()
    size, _ = _lines(copy.shape, (source, destination), copy.dtype.bytes)
    into = _spread(copy.destination, copy.result_shape(), destination, copy.dtype.bytes)
    spread = _spread(copy.source, copy.shape, source, copy.dtype.bytes)
    if copy.source < DDR_BASE:
        spread = into
    elif copy.destination >= DDR_BASE and spread == into == CHANNELS:
        spread = into * into
    return int(size * spread / _rate(copy.source, copy.destination))


def _lines(shape: Shape4, strides: Sequence[Strides], item_bytes: int) -> tuple[int, int]:
    """Bytes that the contiguous runs of a transfer cost, and the length of one run."""
    n, c, h, w = shape
    planes = all((step[2] == w or h == 1) and (step[3] == 1 or w == 1) for step in strides)
    line = (h * w if planes else w) * item_bytes
    return n * c * (1 if planes else h) * max(line, LINE_BYTES), line


def _spread(address: int, shape: Shape4, strides: Strides, item_bytes: int) -> float:
    """How much slower a transfer is because its runs begin in less than all DDR channels."""
    if address < DDR_BASE:
        return 1.0
    n, c, h, _ = shape
    _, line = _lines(shape, (strides,), item_bytes)
    rows = 1 if line > shape[3] * item_bytes or h == 1 else h
    pieces = np.arange(0, min(line, CHANNELS * PAGE_BYTES), PAGE_BYTES)
    steps = [step * item_bytes for step in strides[:3]]
    used = 0
    for counts in ((min(n, 2), min(c, 4), min(rows, 4)), (n, c, rows)):  # nearly always a few runs tell it
        starts = np.zeros(1, np.int64)
        for count, step in zip(counts, steps, strict=True):
            starts = np.add.outer(starts, np.arange(count) * step).reshape(-1)
        channels = np.add.outer(starts, pieces) // PAGE_BYTES % CHANNELS
        used = np.count_nonzero(np.bincount(channels.reshape(-1), minlength=CHANNELS))
        if used == CHANNELS:
            return 1.0
    return CHANNELS / max(1, used)


def _plain(shape: Shape4, dtype: DType) -> int:
    n, c, h, w = shape
    return int(n * c * max(h * w * dtype.bytes, LINE_BYTES) / PLAIN_LOAD)


def _matrix(copy: MatrixCopy) -> int:
    """Pieces below a line cost a line each, in proportion for the last one."""
    size = copy.rows * copy.columns * max(copy.dtype.bytes, LINE_BYTES / copy.width)
    return int(size / (PLAIN_LOAD if in_lmem(copy.destination) else PLAIN_STORE))


def _rows(command: RowGather | RowScatter) -> int:
    """Rows as the runs of a copy, and the index; not measured."""
    channels, rows, width = command.source_size if isinstance(command, RowScatter) else command.destination_size
    moved = channels * rows * max(width * command.dtype.bytes, LINE_BYTES)
    return int((moved + command.index_size[0] * rows * DType.INT32.bytes) / MOVE)
