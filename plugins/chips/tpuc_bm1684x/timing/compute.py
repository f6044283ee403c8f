"""Cycles of compute commands.

A vector is the data that a lane processes in one cycle, 64 bytes on BM1684X. A tensor has `N * slots` planes of
`ceil(H * W * bytes / 64)` vectors each, where slots is the number of groups of lanes that its channels occupy, counted
from the start lane.
"""

from __future__ import annotations

from tpuc.api import Instruction

from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    CompareSelect,
    Conv,
    Gather,
    GatherLines,
    GatherLinesOp,
    GatherOp,
    LaneTransfer,
    MatMul,
    PoolOrDepthwise,
    Requantize,
    ScaleBias,
    SpecialFunction,
    SpecialOp,
    SplitMatMul,
    TransferOp,
)
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.isa.types import Layout, Operand, Pair, Shape4, Source

RSQRT_CYCLES = 30
"""Cycles per vector of a reciprocal square root, for any number of iterations."""
DIVISION_CYCLES, DIVISION_ITERATION_CYCLES = 7, 8
"""Cycles per vector of a division: a fixed part, and a part per iteration."""
REQUANTIZE_BYTES = 4
"""Element size that requantization is counted with: its vectors have 16 elements."""
SUBSAMPLED_POOL = 3
"""Slowdown of windows with a stride above 1 in both directions on BM1684X; elsewhere the lines that they read count."""


def compute_cycles(instruction: Instruction) -> int:
    """Cycles of one compute command, rounded down to as little as 0."""
    match instruction:
        case Conv():
            return _conv(instruction)
        case PoolOrDepthwise():
            return _pool(instruction)
        case Arithmetic():
            return _arithmetic(instruction)
        case Requantize():
            busy = 2 if _one_bank(instruction.target, instruction.input.address, instruction.result.address) else 1
            return busy * _vectors(instruction.target, instruction.result.address, instruction.shape, REQUANTIZE_BYTES)
        case SpecialFunction():
            steps = {SpecialOp.POLYNOMIAL: instruction.terms, SpecialOp.RSQRT: RSQRT_CYCLES}
            vectors = _vectors(
                instruction.target, instruction.result.address, instruction.shape, instruction.input.dtype.bytes
            )
            return steps.get(instruction.operation, 1) * vectors
        case ScaleBias():
            return _vectors(
                instruction.target, instruction.result.address, instruction.shape, instruction.result.dtype.bytes
            )
        case CompareSelect():
            return 2 * _vectors(
                instruction.target, instruction.result.address, instruction.shape, instruction.when_true.dtype.bytes
            )
        case _:
            return _products_and_moves(instruction)


def _products_and_moves(instruction: Instruction) -> int:
    match instruction:
        case MatMul():
            size, target = instruction.left.dtype.bytes, instruction.target
            columns = -(-instruction.columns // target.pixels[size])
            return -(-instruction.rows // target.lanes) * columns * -(-instruction.depth // target.packing[size])
        case SplitMatMul():
            return _split_matmul(instruction)
        case LaneTransfer():
            return _transfer(instruction)
        case Gather():
            return _gather(instruction)
        case GatherLines():
            n, c, h, w = instruction.shape
            rows = h if instruction.operation is GatherLinesOp.GATHER else instruction.table_rows
            vectors = _rows_of_bytes(instruction.target, w * instruction.dtype.bytes)
            return 2 * n * _slots(instruction.target, instruction.result, c) * rows * vectors
        case _:
            return 1


def _slots(target: Target, address: int, channels: int) -> int:
    return -(-(address // target.lane_bytes + channels) // target.lanes)


def _rows_of_bytes(target: Target, size: int) -> int:
    return -(-size // target.eu_bytes)


def _vectors(target: Target, address: int, shape: Shape4, item_bytes: int) -> int:
    """Vectors of a tensor whose first channel is at `address`."""
    n, c, h, w = shape
    return n * _slots(target, address, c) * _rows_of_bytes(target, h * w * item_bytes)


def _one_bank(target: Target, *places: int) -> bool:
    """True when two of the addresses are in the same bank, whatever their lanes."""
    return len({place % target.lane_bytes // target.bank_bytes for place in places}) < len(places)


# -- windows and products ----------------------------------------------------------------------------------------------


def _conv(conv: Conv) -> int:
    """Cycles of a convolution. Output channels are counted from lane 0, whatever the start lane."""
    n, oc, oh, ow = conv.result_shape
    size, target = conv.input.dtype.bytes, conv.target
    steps = -(-oh * ow // target.pixels[size]) * -(-conv.input_shape[0] // target.packing[size])
    return n * -(-oc // target.lanes) * steps * conv.kernel[0] * conv.kernel[1]


def _pool(pool: PoolOrDepthwise) -> int:
    n, c, oh, ow = pool.shape
    widest = max(pool.input.dtype.bytes, pool.result.dtype.bytes)
    steps = _window_lines(pool, widest) * pool.kernel[0] * pool.kernel[1]
    if pool.kernel[0] == 1:  # rows of the result are separate then
        return steps * oh * _vectors(pool.target, pool.result.address, (n, c, 1, ow), widest)
    return steps * _vectors(pool.target, pool.result.address, pool.shape, widest)


def _window_lines(pool: PoolOrDepthwise, widest: int) -> int:
    """Lines of local memory read per vector."""
    if pool.target.shifts_pools:
        return SUBSAMPLED_POOL if min(pool.stride) > 1 else 1
    down, along = pool.stride
    oh, ow = pool.shape[2:]
    vectors = _rows_of_bytes(pool.target, oh * ow * widest)
    return _lines(pool.target, (down * pool.input_size[1], along), (oh, ow), widest, vectors)


def _split_matmul(product: SplitMatMul) -> int:
    """Cycles of MM. A bias and an accumulated result cost as much as one product each."""
    left = product.left.dtype
    columns = _rows_of_bytes(product.target, product.right_width * (left.bytes if left.is_float else 1))
    depth = product.depth + int(product.bias is not None) + int(product.accumulate)
    return product.result_rows * depth * _slots(product.target, product.result.address, product.right_pieces) * columns


# -- element by element ------------------------------------------------------------------------------------------------

_NEVER_IN_PLACE = (ArithmeticOp.COPY, ArithmeticOp.MULTIPLY_ADD)
_SHIFTS = (ArithmeticOp.ARITHMETIC_SHIFT, ArithmeticOp.LOGICAL_SHIFT, ArithmeticOp.CIRCULAR_SHIFT)


def _arithmetic(command: Arithmetic) -> int:
    """Vectors of the widest operand (immediates included) times the lines of local memory that one vector spans.

    Two operands with explicit strides are read one after the other. A result at the address of an operand doubles the
    time, except for the shift amount.
    """
    sources: list[Source] = [source for source in (command.left, command.right) if source is not None]
    tensors = [source for source in sources if isinstance(source, Operand)]
    widest = max(operand.dtype.bytes for operand in (command.result, *sources))
    n, c, h, w = command.shape
    target = command.target
    vectors = _rows_of_bytes(target, h * w * widest)
    lines = [_operand_lines(target, operand, command.shape, widest, vectors) for operand in tensors]
    apart = len(tensors) == 2 and all(_read_alone(operand, w, vectors) for operand in tensors)
    steps = max(
        _operand_lines(target, command.result, command.shape, widest, vectors),
        sum(lines) if apart else max(lines, default=1),
    )
    planes = n * _slots(target, command.result.address, c)
    if command.operation is ArithmeticOp.DIV:
        steps = max(steps, DIVISION_CYCLES + DIVISION_ITERATION_CYCLES * command.iterations)
    elif command.operation not in _NEVER_IN_PLACE:
        read = sources[:1] if command.operation in _SHIFTS else sources
        in_place = any(isinstance(source, Operand) and source.address == command.result.address for source in read)
        steps *= 2 if in_place else 1
    return planes * vectors * steps


def _read_alone(operand: Operand, w: int, vectors: int) -> bool:
    """True when the operand needs its own read. One value per row, broadcast along W, is read with the other
    operand.
    """
    if isinstance(operand.layout, Layout):
        return False
    return operand.layout[2:] != (1, 0) or vectors == 1 or w == 1


def _operand_lines(target: Target, operand: Operand, shape: Shape4, widest: int, vectors: int) -> int:
    if isinstance(operand.layout, Layout):
        return 1
    return _lines(target, operand.layout[2:], shape[2:], widest, vectors)


def _lines(target: Target, strides: Pair, extents: Pair, widest: int, vectors: int) -> int:
    """Lines of local memory read per vector: the W stride, or the lines that the separate rows touch, divided by the
    vectors.
    """
    h, w = extents
    if strides[1] > 1:
        return min(strides[1], target.eu_bytes // widest)
    step, row = strides[0] * widest, w * widest
    close = step - row < target.eu_bytes
    if close:
        return max(1, _rows_of_bytes(target, h * step) // vectors)
    touched = h * _rows_of_bytes(target, step % target.eu_bytes + row)
    return max(1, touched // vectors)


# -- between lanes, and look-ups ---------------------------------------------------------------------------------------


def _transfer(transfer: LaneTransfer) -> int:
    n, c, h, w = transfer.shape
    size, target = transfer.dtype.bytes, transfer.target
    busy = 2 if transfer.result // target.bank_bytes == transfer.source // target.bank_bytes else 1
    match transfer.operation:
        case TransferOp.BROADCAST:
            return busy * n * _rows_of_bytes(target, h * w * size)
        case TransferOp.COPY:
            return busy * c * _vectors(target, transfer.result, transfer.shape, size)
        case TransferOp.STATIC_BROADCAST:
            return _rows_of_bytes(target, w * size)
        case TransferOp.STATIC_DISTRIBUTE:
            return _rows_of_bytes(target, c * size)
        case TransferOp.TRANSPOSE_CW:
            return n * h * _rows_of_bytes(target, c * size)
        case TransferOp.TRANSPOSE_WC:
            return n * h * _rows_of_bytes(target, w * size)


_SCATTERS = (GatherOp.SCATTER, GatherOp.SCATTER_HZD, GatherOp.LANE_SCATTER)
BANK_FREE = (GatherOp.LANE_GATHER, GatherOp.LANE_GATHER_2D, GatherOp.LANE_SCATTER, GatherOp.GATHER_M)
"""Gathers without bank conflicts: they use one index for all lanes, or read four banks at a time."""


def _gather(gather: Gather) -> int:
    """Cycles of a gather, one element at a time; 50 % more when two of result, index and table share a bank."""
    n, c, h, w = gather.shape
    elements = h * w
    if gather.operation in _SCATTERS:
        elements = max(gather.index_size) if gather.operation is GatherOp.LANE_SCATTER else gather.index_size[1]
    elements *= n * _slots(gather.target, gather.result.address, c)
    if gather.operation is GatherOp.GATHER_M:  # from four banks at a time
        return elements // 4
    return elements * 3 // 2 if gather.operation not in BANK_FREE and _share_bank(gather) else elements


def _share_bank(gather: Gather) -> bool:
    banks = [
        set(range(region.start // gather.target.bank_bytes, -(-region.end // gather.target.bank_bytes)))
        for region in (*gather.reads(), *gather.writes())
    ]
    return len(set[int]().union(*banks)) < sum(map(len, banks))
