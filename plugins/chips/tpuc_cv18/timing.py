"""Cycles per instruction, by the rules of the vendor compiler's estimator or by traces of a real chip."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from tpuc.api import Instruction, UsageError

from tpuc_cv18.isa.arithmetic import Arithmetic, ArithmeticOp
from tpuc_cv18.isa.command import Cv18Instruction, DmaInstruction
from tpuc_cv18.isa.conv import Conv
from tpuc_cv18.isa.depthwise import Depthwise
from tpuc_cv18.isa.finish import PartialSum
from tpuc_cv18.isa.geometry import EU_BYTES, REQUANTIZE_LEAST
from tpuc_cv18.isa.lookup import ChannelSum, Lookup
from tpuc_cv18.isa.matmul import MatMul
from tpuc_cv18.isa.pool import AveragePool, MaxPool
from tpuc_cv18.isa.target import Profile, Target
from tpuc_cv18.isa.types import Operand, Scalar, Shape4
from tpuc_cv18.timing_dma import measured_transfer, vendor_transfer

WINDOW_START, ELEMENT_START = 41, 26
"""Cycles before the first vector of a product and of an elementwise command."""
FINISH, FINISH_REQUANTIZE = 12, 31
"""Cycles after the last vector, without and with requantization."""
_PARTIAL = {PartialSum.OFF: 0, PartialSum.LAST: 4, PartialSum.FIRST: 4, PartialSum.MIDDLE: 8}


def cycles(instruction: Instruction, profile: str = "vendor") -> int:
    """Cycles of one instruction on its own; at least 1."""
    assert isinstance(instruction, Cv18Instruction), "an instruction of another chip"
    model = profile_of(instruction.target, profile)
    if isinstance(instruction, DmaInstruction):
        transfer = measured_transfer(instruction) if model.is_measured else vendor_transfer(instruction, model)
        return max(1, transfer)
    if model.is_measured and isinstance(instruction, Conv):
        return max(1, _measured_conv(instruction))
    return max(1, _compute(instruction))


def profile_of(target: Target, name: str) -> Profile:
    """The timing model with that name; raises UsageError for an unknown name."""
    if name not in target.profiles:
        raise UsageError(f"{target.name}: no timing profile {name!r}; it has {', '.join(target.profiles)}")
    return target.profiles[name]


def _compute(instruction: Instruction) -> int:
    for kind, count in _COMPUTE.items():
        if isinstance(instruction, kind):
            return count(instruction)
    raise TypeError(f"no cycles known for {type(instruction).__name__}")


def _vectors(target: Target, result: Operand, shape: Shape4) -> int:
    """Vector steps of a result: 16 bytes of one channel group per step."""
    n, c, h, w = shape
    groups = target.groups_of(result.lane + c)
    width = EU_BYTES // 2 if result.dtype.is_float else EU_BYTES
    return n * groups * -(-h * w // width)


def _finish(requantizes: bool) -> int:
    return FINISH_REQUANTIZE if requantizes else FINISH


def _shift(is_float: bool, requantizes: bool) -> int:
    return 2 if is_float else 1 if requantizes else 4


def _reach(outputs: int, stride: int, gaps: int) -> float:
    """Number of input elements spanned by `outputs` adjacent results."""
    return (outputs - 1) * stride / (gaps + 1) + 1


# -- windows -----------------------------------------------------------------------------------------------------------


def _conv(conv: Conv) -> int:
    channels, taps = conv.input_shape[0], prod(conv.kernel)
    fetches = math.ceil(_reach(EU_BYTES, conv.stride[1], conv.insert[1]) / EU_BYTES) + 1
    loop = taps * -(-channels // (2 if conv.double else 1)) + taps * max(0, fetches - channels)
    loop += _shift(conv.is_float, conv.block is not None) + (2 if conv.bias is not None else 0) + _PARTIAL[conv.partial]
    if conv.block is not None:
        loop = max(loop, REQUANTIZE_LEAST)
    return WINDOW_START + _vectors(conv.target, conv.result, conv.result_shape) * loop + _finish(conv.block is not None)


def _measured_conv(conv: Conv) -> int:
    """Count products only: within 0.5 % for all convolutions in a trace of ResNet-50 on a CV1835."""
    channels = -(-conv.input_shape[0] // (2 if conv.double else 1))
    return _vectors(conv.target, conv.result, conv.result_shape) * prod(conv.kernel) * channels


def _slowdown(outputs: int, stride: int, gaps: int, rows: float = 1.0) -> float:
    """Fetches per tap and vector to gather `outputs` neighbors from 16-byte words, averaged over alignments."""
    reach = _reach(outputs, stride, gaps)
    whole = reach * rows / EU_BYTES
    return whole + (EU_BYTES - 1) / EU_BYTES


def _depthwise(conv: Depthwise) -> int:
    taps, width = prod(conv.kernel), conv.result_shape[3]
    outputs = min(width, EU_BYTES)
    slow = _slowdown(outputs, conv.stride[1], conv.insert[1], EU_BYTES / outputs) if taps > 1 else 1.0
    loop = int(taps * slow)
    if conv.block is not None:
        loop = max(loop, REQUANTIZE_LEAST)
    loop += (2 if conv.bias is not None else 0) + (2 if conv.is_float and (taps > 1 or conv.block is not None) else 3)
    return _vectors(conv.target, conv.result, conv.result_shape) * loop + _finish(conv.block is not None)


def _pool_slowdown(pool: MaxPool | AveragePool, width: int) -> float:
    _, _, h, w = pool.result_shape
    if h * w == 1:
        return 1.0
    reach = _reach(width, pool.stride[1], pool.insert[1])
    return max(1.0, (reach + min(width, reach) - 1) / width)


def _max_pool(pool: MaxPool) -> int:
    loop = prod(pool.kernel) * _pool_slowdown(pool, EU_BYTES) + 2
    return int(_vectors(pool.target, pool.result, pool.result_shape) * loop)


def _average_pool(pool: AveragePool) -> int:
    width = EU_BYTES // 2 if pool.is_float else EU_BYTES
    loop = int(prod(pool.kernel) * _pool_slowdown(pool, width)) + _shift(pool.is_float, False)
    return _vectors(pool.target, pool.result, pool.result_shape) * loop + FINISH


def _matmul(product: MatMul) -> int:
    requantizes = product.multiplier is not None
    loop = product.depth + _shift(product.is_float, requantizes) + _PARTIAL[product.partial]
    loop += (2 if product.bias is not None and not requantizes else 0) + (2 if product.accumulate else 0)
    return WINDOW_START + _vectors(product.target, product.result, product.result_shape) * loop + _finish(requantizes)


# -- element by element ------------------------------------------------------------------------------------------------

_LATENCY = {
    ArithmeticOp.MUL: (2.5, 4.5),
    ArithmeticOp.MAC: (9.0, 11.0),
    ArithmeticOp.ADD: (5.0, 7.0),
    ArithmeticOp.SUB: (5.0, 7.0),
    ArithmeticOp.SHIFT: (4.0, 4.0),
    ArithmeticOp.COPY: (2.0, 4.0),
}
"""Cycles per vector of 8-bit (or bf16) operands and of 16-bit operands."""
_OTHER_LATENCY = (3.0, 5.0)
_MISALIGNED = 30 / 16
"""Slowdown of results whose channel groups do not start on 16-byte boundaries."""


def _arithmetic(command: Arithmetic) -> int:
    op, wide = command.operation, command.left.dtype.planes > 1
    latency = _LATENCY.get(op, _OTHER_LATENCY)[int(wide)]
    if op is ArithmeticOp.MUL and command.result.dtype.planes == 1:
        latency += 3
    if op in (ArithmeticOp.ADD, ArithmeticOp.SUB) and wide and isinstance(command.right, Scalar):
        latency -= 0.5
    if command.result.dtype.planes > 1:
        latency += 1
    if command.result.strides(command.shape, command.target)[1] % EU_BYTES:
        latency *= _MISALIGNED
    return (
        int(_vectors(command.target, command.result, command.shape) * latency)
        + ELEMENT_START
        + _finish(command.multiplier is not None)
    )


def _lookup(command: Lookup) -> int:
    rows = 32 if command.is_float else 16
    return _vectors(command.target, command.result, command.shape) * (rows + 3) + ELEMENT_START + FINISH


def _channel_sum(command: ChannelSum) -> int:
    return _vectors(command.target, command.input, command.input_shape) * 3 + ELEMENT_START + FINISH


_COMPUTE: dict[type[Instruction], Callable[..., int]] = {
    Conv: _conv,
    Depthwise: _depthwise,
    MaxPool: _max_pool,
    AveragePool: _average_pool,
    MatMul: _matmul,
    Arithmetic: _arithmetic,
    Lookup: _lookup,
    ChannelSum: _channel_sum,
}
