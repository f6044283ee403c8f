"""Cycles per instruction: profile `vendor` (the vendor compiler's estimator) and `measured` (traces of a real chip)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tpuc.api import Instruction, Region

from tpuc_cv183x.isa.arithmetic import Arithmetic, ArithmeticOp
from tpuc_cv183x.isa.conv import Conv
from tpuc_cv183x.isa.depthwise import Depthwise
from tpuc_cv183x.isa.dma import TensorCopy
from tpuc_cv183x.isa.finish import ChannelBlock, PartialSum
from tpuc_cv183x.isa.geometry import EU_BYTES, LANES, round_up
from tpuc_cv183x.isa.lookup import ChannelSum, Lookup
from tpuc_cv183x.isa.matmul import MatMul
from tpuc_cv183x.isa.pool import AveragePool, MaxPool
from tpuc_cv183x.isa.types import DType, Operand, Shape4

CLOCK_HZ = 650_000_000
"""TPU clock of the estimator (chip.md)."""
VENDOR_DDR = 7.5e9 / CLOCK_HZ
"""Bytes per cycle: 32-bit bus at 1886 MT/s (chip.md)."""


def _groups(operand: Operand, channels: int) -> int:
    return round_up(operand.lane + channels, LANES) // LANES


def _vectors(result: Operand, shape: Shape4, item_bytes: int) -> int:
    """Vector steps of an element-wise command."""
    n, c, h, w = shape
    return n * _groups(result, c) * -(-h * w * item_bytes // EU_BYTES)


def _psum(partial: PartialSum) -> int:
    return {PartialSum.OFF: 0, PartialSum.LAST: 4, PartialSum.FIRST: 4, PartialSum.MIDDLE: 8}[partial]


def _finish(is_float: bool, requantises: bool, has_bias: bool) -> int:
    """Cycles per vector for bias and shift."""
    shift = 2 if is_float else 1 if requantises else 4
    return shift + (2 if has_bias else 0)


def _post(requantises: bool) -> int:
    return 31 if requantises else 12


def _window(result: Operand, shape: Shape4, depth: int, block: ChannelBlock | None, has_bias: bool, psum: int) -> int:
    """Convolutions: `depth` products per result vector."""
    loop = depth + _finish(result.dtype.is_float, block is not None, has_bias) + psum
    if block is not None:
        loop = max(loop, 16)
    return 41 + _vectors(result, shape, result.dtype.bytes) * loop + _post(block is not None)


def _matmul(product: MatMul) -> int:
    requantises = product.multiplier is not None
    loop = product.depth + _finish(product.is_float, requantises, product.bias is not None)
    loop += _psum(product.partial) + (2 if product.accumulate else 0)
    rows, channels, _, width = product.result_shape
    vectors = rows * _groups(product.result, channels) * -(-width * product.left.dtype.bytes // EU_BYTES)
    return 41 + vectors * loop + _post(requantises)


_LATENCY = {
    ArithmeticOp.MUL: 5.5,
    ArithmeticOp.MAC: 9.0,
    ArithmeticOp.ADD: 5.0,
    ArithmeticOp.SUB: 5.0,
    ArithmeticOp.MAX: 3.0,
    ArithmeticOp.MIN: 3.0,
    ArithmeticOp.AND: 3.0,
    ArithmeticOp.OR: 3.0,
    ArithmeticOp.XOR: 3.0,
    ArithmeticOp.COPY: 2.0,
    ArithmeticOp.SHIFT: 4.0,
}
"""Cycles per vector of 8-bit elements."""


def _arithmetic(command: Arithmetic) -> int:
    latency = _LATENCY[command.operation]
    if command.left.dtype.planes > 1:
        latency += 2
    if command.result.dtype.planes > 1:
        latency += 1
    vectors = _vectors(command.result, command.shape, command.result.dtype.bytes)
    return 26 + _post(command.multiplier is not None) + int(vectors * latency)


def _compute(instruction: Instruction) -> int:
    match instruction:
        case Conv():
            channels = instruction.input_shape[0]
            depth = prod(instruction.kernel) * -(-channels // (2 if instruction.double else 1))
            has_bias = instruction.bias is not None
            psum = _psum(instruction.partial)
            return _window(instruction.result, instruction.result_shape, depth, instruction.block, has_bias, psum)
        case Depthwise():
            has_bias, depth = instruction.bias is not None, prod(instruction.kernel)
            return _window(instruction.result, instruction.result_shape, depth, instruction.block, has_bias, 0)
        case MaxPool() | AveragePool():
            return _window(instruction.result, instruction.result_shape, prod(instruction.kernel), None, False, 0)
        case MatMul():
            return _matmul(instruction)
        case Arithmetic():
            return _arithmetic(instruction)
        case Lookup():
            rows = 32 if instruction.is_float else 16
            return _vectors(instruction.result, instruction.shape, 1) * (rows + 3)
        case ChannelSum():
            return 38 + _vectors(instruction.input, instruction.input_shape, DType.INT8.bytes) * 5
        case _:
            raise TypeError(f"no cycles known for {type(instruction).__name__}")


def _bytes_of(region: Region) -> int:
    return region.end - region.start


def _vendor_dma(instruction: Instruction) -> int:
    regions = (*instruction.reads(), *instruction.writes())
    ddr = sum(_bytes_of(region) for region in regions if region.space == "gmem")
    return int(ddr / VENDOR_DDR)


def cycles(instruction: Instruction, profile: str = "vendor") -> int:
    """Cycles of one instruction alone; at least 1."""
    from tpuc.api import Engine
    return max(1, _compute(instruction) if instruction.engine is Engine.COMPUTE else _vendor_dma(instruction))
