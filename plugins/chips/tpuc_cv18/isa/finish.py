"""The epilogue of a product: bias, requantization, relu, saturation, and 32-bit partial sums in planes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding, requantize_qdm, saturate, shift_right

from tpuc_cv18.isa.bf16 import F32Array, add_toward_zero, flush, narrow, saturate_sums
from tpuc_cv18.isa.geometry import LANE_BYTES
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import Array, DType, Operand, Shape4, format_address, lane_region

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine


class PartialSum(enum.IntEnum):
    """Field `ps32_md`: a long reduction over several commands keeps its 32-bit sums in the result area."""

    OFF = 0
    LAST = 1
    """Read sums, accumulate, apply the epilogue, overwrite them with the result."""
    FIRST = 2
    """Write sums."""
    MIDDLE = 3
    """Read sums, accumulate, write sums."""

    @property
    def reads(self) -> bool:
        """True when it continues earlier sums."""
        return bool(self & 1)

    @property
    def writes(self) -> bool:
        """True when it writes raw sums."""
        return bool(self & 2)


@dataclass(frozen=True, slots=True)
class ChannelBlock:
    """Requantization parameters per output channel: int32 bias (unless `has_bias` is off), int32 multiplier, and a byte
    whose lower 6 bits are the shift, to the right, or to the left when negative.

    9 (or 5) bytes per channel, little endian, compact, 16-byte aligned.
    """

    address: int
    has_bias: bool = True

    @property
    def channel_bytes(self) -> int:
        """Bytes of one channel's record."""
        return 9 if self.has_bias else 5

    def region(self, channels: int, target: Target) -> Region:
        """The region of the records of `channels` channels."""
        size = self.channel_bytes
        return lane_region(target, *divmod(self.address, LANE_BYTES), (1, channels, 1, size), (0, size, size, 1), 1)

    def load(self, machine: Machine, channels: int) -> tuple[Array, Array, Array]:
        """Bias, multiplier and shift as `[c, 1, 1]` int64."""
        size = self.channel_bytes
        raw = machine.load_raw(self.address, (1, channels, 1, size), (0, size, size, 1), np.dtype(np.uint8))
        raw = np.ascontiguousarray(raw.reshape(channels, size))
        words = [raw[:, at : at + 4].copy().view(np.int32).astype(np.int64) for at in range(0, size - 1, 4)]
        bias = words[0] if self.has_bias else np.zeros((channels, 1), np.int64)
        shift = (raw[:, -1:].astype(np.int64) + 32 & 63) - 32
        return bias[..., None], words[-1][..., None], shift[..., None]

    def __str__(self) -> str:
        return f"[{format_address(self.address)}]" + ("" if self.has_bias else ":no bias")


def bias_shape(channels: int) -> Shape4:
    """Extents of a bias: one element per channel."""
    return (1, channels, 1, 1)


def bias_step(channels: int, dtype: DType, target: Target) -> int:
    """Distance in bytes between the two planes of a bias (chip.md)."""
    return target.groups_of(channels) * dtype.bytes


def bias_regions(address: int, channels: int, dtype: DType, target: Target) -> list[Region]:
    """The regions of both planes of a bias."""
    size = dtype.bytes
    lane, offset = divmod(address, LANE_BYTES)
    step = bias_step(channels, dtype, target)
    return [
        lane_region(target, lane, offset + plane * step, bias_shape(channels), (size, size, size, size), size)
        for plane in range(2)
    ]


def load_bias(machine: Machine, address: int, channels: int, dtype: DType, is_signed: bool) -> Array:
    """Read a bias as `[c, 1, 1]`: int64 for a 16-bit bias, float32 for bf16 operands."""
    size, step = dtype.bytes, bias_step(channels, dtype, machine.target)
    place = (address, bias_shape(channels), (size, size, size, size), step)
    if dtype.is_float:
        return machine.load_halves(*place).reshape(channels, 1, 1)
    kind = np.dtype(np.int16 if is_signed else np.uint16)
    return machine.load_planes(*place, kind).astype(np.int64).reshape(channels, 1, 1)


def load_sums(machine: Machine, result: Operand, shape: Shape4) -> Array:
    """Read partial sums: int32, or float32 for bf16 operands."""
    strides, step = result.strides(shape, machine.target), result.step(shape, machine.target)
    if result.dtype.is_float:
        return machine.load_halves(result.address, shape, strides, step)
    return machine.load_planes(result.address, shape, strides, step, np.dtype(np.int32))


def store_sums(machine: Machine, result: Operand, shape: Shape4, sums: Array) -> None:
    """Write partial sums."""
    strides, step = result.strides(shape, machine.target), result.step(shape, machine.target)
    if result.dtype.is_float:
        machine.store_halves(result.address, shape, strides, step, saturate_sums(sums))
    else:
        machine.store_planes(result.address, shape, strides, step, sums.view(np.int32))


def sum_planes(dtype: DType) -> int:
    """Number of planes of partial sums."""
    return 2 if dtype.is_float else 4


def round_shift(values: Array, shift: int, relu: bool, dtype: DType, rounding: Rounding = Rounding.HALF_UP) -> Array:
    """`saturate(relu(values / 2**shift))`."""
    shifted = shift_right(values, np.int64(shift), rounding) if shift else np.asarray(values, np.int64)
    return saturate(np.maximum(shifted, 0) if relu else shifted, dtype.numpy)


LARGEST_MULTIPLIER = 1 << 31


def requantize(sums: Array, multiplier: Array | int, shift: Array | int, relu: bool, dtype: DType) -> Array:
    """`saturate(relu(REQ(sums)))` with two roundings (tiu.md). A negative shift is applied first, to the left, and
    wraps at 32 bits. Raises IllegalCommand for a multiplier above 2^31 - 1.
    """
    if np.max(np.abs(np.asarray(multiplier, np.int64)), initial=0) >= LARGEST_MULTIPLIER:
        raise IllegalCommand("the multiplier of a channel is above 2^31 - 1; its constants are damaged")
    shift = np.asarray(shift, np.int64)
    if np.min(shift, initial=0) < 0:
        sums, shift = wrap(np.asarray(sums, np.int64) << np.maximum(-shift, 0)), np.maximum(shift, 0)
    result = requantize_qdm(sums, multiplier, shift, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int32)
    return saturate(np.maximum(result, 0) if relu else result, dtype.numpy)


def wrap(values: Array) -> Array:
    """Reduce integers modulo 2**32, as int32."""
    return values.astype(np.int64).astype(np.int32)


def finish_float(sums: F32Array, bias: Array | None, relu: bool) -> Array:
    """bf16 bits of float32 sums: add the bias last, rounding toward zero, then relu, then round half to even."""
    return narrow(sums if bias is None else add_toward_zero(sums, flush(bias)), relu)
