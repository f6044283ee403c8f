"""The commands of the toy chip: what each encodes, touches and does (manual, 3).

The fields of a class, in their order, are the words of the command: nothing else has to be written to encode and
decode it. Code generator, disassembler and simulator share these classes.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import typing
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, Instruction, Region
from tpuc_ops.quant.arithmetic import Rounding, requantize, round_to_int, saturate, shift_right

from toy_chip.machine import Array, Machine, windows
from toy_chip.operands import LANES, DType, Layout, Operand, Pair, Strided, Window

_HEADER = struct.Struct("<HHII")


@dataclass(frozen=True)
class ToyInstruction(Instruction):
    """Base of all commands. A command is a header (opcode, number of words, own number, wait) and its words."""

    opcode: ClassVar[int]
    engine: ClassVar[Engine] = Engine.COMPUTE

    def encode(self, number: int, wait: int) -> bytes:
        words = b"".join(_to_words(dataclasses.astuple(self)))
        return _HEADER.pack(self.opcode, len(words) // 4, number, wait) + words

    def describe(self) -> str:
        return f"{type(self).__name__:<12} " + " ".join(f"{name}={value}" for name, value in vars(self).items())


def _to_words(value: Any) -> Iterator[bytes]:
    match value:
        case int():
            yield struct.pack("<i", value)
        case float():
            yield struct.pack("<f", value)
        case _:
            for part in value:
                yield from _to_words(part)


def _from_words(kind: Any, words: deque[bytes]) -> Any:
    """A value of type `kind`. IndexError: too few words; ValueError: a number that an enumeration does not have."""
    if typing.get_origin(kind) is tuple:
        return tuple(_from_words(part, words) for part in typing.get_args(kind))
    if kind is float:
        return struct.unpack("<f", words.popleft())[0]
    parts = _field_types(kind)
    if parts:
        return kind(*(_from_words(part, words) for part in parts))
    return kind(struct.unpack("<i", words.popleft())[0])


@functools.cache
def _field_types(kind: Any) -> tuple[Any, ...]:
    """The types of the fields of a dataclass, nothing for other types."""
    if not dataclasses.is_dataclass(kind):
        return ()
    hints = typing.get_type_hints(kind)
    return tuple(hints[field.name] for field in dataclasses.fields(kind))


def decode(stream: bytes) -> list[Command]:
    """All commands of an engine's stream. Raises CorruptFile where it ends early, IllegalCommand for wrong fields."""
    commands: list[Command] = []
    at = 0
    while at < len(stream):
        if at + _HEADER.size > len(stream):
            raise CorruptFile(f"the command stream ends within a header at byte {at}; compile the network again")
        opcode, count, number, wait = _HEADER.unpack_from(stream, at)
        end = at + _HEADER.size + 4 * count
        if end > len(stream):
            raise CorruptFile(f"the command stream ends within command {number}; compile the network again")
        commands.append(Command(_decode_one(opcode, stream[at:end]), number, wait))
        at = end
    return commands


def _decode_one(opcode: int, data: bytes) -> Instruction:
    _, _, number, wait = _HEADER.unpack_from(data)
    kind = INSTRUCTIONS.get(opcode)
    if kind is None:
        raise IllegalCommand(f"command {number}: there is no opcode {opcode:#x} (manual, 3)")
    words = deque(data[at : at + 4] for at in range(_HEADER.size, len(data), 4))
    try:
        instruction: Instruction = _from_words(kind, words)
    except (IndexError, ValueError) as error:
        raise IllegalCommand(f"command {number}: the fields of a {kind.__name__} are wrong (manual, 3)") from error
    if instruction.encode(number, wait) != data:
        raise IllegalCommand(f"command {number}: a {kind.__name__} has words that mean nothing (manual, 3)")
    return instruction


# Compute


@dataclass(frozen=True)
class Fill(ToyInstruction):
    """`result = value`, in every element."""

    opcode = 0x10
    result: Operand
    value: float

    def reads(self) -> Sequence[Region]:
        return ()

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        machine.write(self.result, np.asarray(self.value))


@dataclass(frozen=True)
class OneInput(ToyInstruction):
    """Base of commands that make a tensor in LMEM from another one."""

    result: Operand
    input: Operand

    def reads(self) -> Sequence[Region]:
        return (self.input.region,)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)


@dataclass(frozen=True)
class Conv(OneInput):
    """int32 sums of 8-bit inputs times int8 filters; with `accumulate` added to what the result holds.

    Output channel oc finds its filter in its own lane and slot at `filters`, compact: `[ic][kh][kw]`. Inputs reach
    every lane. Sums wrap at 32 bits; padding is 0.
    """

    opcode = 0x11
    filters: int
    window: Window
    accumulate: bool = False

    @property
    def filter_operand(self) -> Operand:
        """The filters as a tensor `[1, oc, ic, kh * kw]`."""
        shape = (1, self.result.shape[1], self.input.shape[1], self.window.taps)
        return Operand(self.filters, shape, DType.I8, Layout.COMPACT)

    def reads(self) -> Sequence[Region]:
        sums = (self.result.region,) if self.accumulate else ()
        return (*super().reads(), self.filter_operand.region, *sums)

    def execute(self, machine: Machine) -> None:
        n, oc, rows, columns = self.result.shape
        # Products of 8 bits add up exactly in float64 (below 2**53), where numpy has a fast matrix product.
        taken = windows(machine.read(self.input), self.window, (rows, columns), 0).astype(np.float64)
        patches = taken.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, -1)
        filters = machine.read(self.filter_operand).reshape(oc, -1).astype(np.float64)
        sums = (patches @ filters.T).astype(np.int64).reshape(n, rows, columns, oc).transpose(0, 3, 1, 2)
        if self.accumulate:
            sums = sums + machine.read(self.result)
        machine.write(self.result, sums)


@dataclass(frozen=True)
class Requantize(OneInput):
    """`result = saturate(half_up((input + bias) * multiplier / 2**shift) + zero_point)`; the first sum saturates too.

    `parameters`: three int32 per channel {bias, multiplier, shift}, compact, in the channel's lane. A result of u8 is a
    relu for free.
    """

    opcode = 0x12
    parameters: int
    zero_point: int = 0

    @property
    def parameter_operand(self) -> Operand:
        """The parameters as a tensor `[1, c, 1, 3]`."""
        return Operand(self.parameters, (1, self.result.shape[1], 1, 3), DType.I32, Layout.COMPACT)

    def reads(self) -> Sequence[Region]:
        return (*super().reads(), self.parameter_operand.region)

    def execute(self, machine: Machine) -> None:
        bias, multiplier, shift = (machine.read(self.parameter_operand)[..., i : i + 1] for i in range(3))
        sums = saturate(machine.read(self.input).astype(np.int64) + bias, np.int32)
        dtype = self.result.dtype.numpy
        machine.write(self.result, requantize(sums, multiplier, shift, self.zero_point, Rounding.HALF_UP, dtype))


@dataclass(frozen=True)
class MaxPool(OneInput):
    """The maximum under each window; padding is below everything."""

    opcode = 0x13
    window: Window

    def execute(self, machine: Machine) -> None:
        lowest = int(np.iinfo(self.input.dtype.numpy).min)
        taken = windows(machine.read(self.input), self.window, self.result.shape[2:], lowest)
        machine.write(self.result, taken.max(axis=(4, 5)))


@dataclass(frozen=True)
class AveragePool(OneInput):
    """`saturate(half_up(sum * multiplier / 2**shift))` under each window; padding is 0."""

    opcode = 0x14
    window: Window
    multiplier: int
    shift: int

    def execute(self, machine: Machine) -> None:
        sums = windows(machine.read(self.input).astype(np.int64), self.window, self.result.shape[2:], 0).sum(
            axis=(4, 5)
        )
        dtype = self.result.dtype.numpy
        machine.write(self.result, requantize(sums, self.multiplier, self.shift, 0, Rounding.HALF_UP, dtype))


@dataclass(frozen=True)
class Add(ToyInstruction):
    """`saturate(int16(left * m0 / 2**s0) + int16(right * m1 / 2**s1))`, each half up. Extents of 1 are repeated."""

    opcode = 0x15
    result: Operand
    left: Operand
    right: Operand
    multipliers: Pair
    shifts: Pair

    def reads(self) -> Sequence[Region]:
        return (self.left.region, self.right.region)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        left, right = (
            saturate(shift_right(machine.read(x).astype(np.int64) * m, s, Rounding.HALF_UP), np.int16).astype(np.int32)
            for x, m, s in zip((self.left, self.right), self.multipliers, self.shifts, strict=True)
        )
        machine.write(self.result, saturate(left + right, self.result.dtype.numpy))


@dataclass(frozen=True)
class Clamp(OneInput):
    """`result = min(max(input, low), high)` on integers of one type; may work in place."""

    opcode = 0x16
    low: int
    high: int

    def execute(self, machine: Machine) -> None:
        values = machine.read(self.input).astype(np.int64)
        machine.write(self.result, saturate(np.clip(values, self.low, self.high), self.result.dtype.numpy))


@dataclass(frozen=True)
class Quantize(OneInput):
    """`saturate(half_away(input * factor + zero_point))`: product and sum in float32; NaN becomes 0."""

    opcode = 0x17
    factor: float
    zero_point: int = 0

    def execute(self, machine: Machine) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled: Array = machine.read(self.input) * np.float32(self.factor) + np.float32(self.zero_point)
        whole = round_to_int(scaled, Rounding.HALF_AWAY_FROM_ZERO)
        machine.write(self.result, saturate(whole, self.result.dtype.numpy))


@dataclass(frozen=True)
class Dequantize(OneInput):
    """`result = (input - zero_point) * scale`, one float32 rounding."""

    opcode = 0x18
    scale: float
    zero_point: int = 0

    def execute(self, machine: Machine) -> None:
        centered = machine.read(self.input).astype(np.int32) - self.zero_point
        machine.write(self.result, centered.astype(np.float32) * np.float32(self.scale))


@dataclass(frozen=True)
class Softmax(OneInput):
    """`e**(beta * (x - max))` divided by its sum, along w, in float32."""

    opcode = 0x19
    beta: float = 1.0

    def execute(self, machine: Machine) -> None:
        x = machine.read(self.input)
        powers = np.exp(np.float32(self.beta) * (x - x.max(axis=3, keepdims=True)))
        machine.write(self.result, powers / powers.sum(axis=3, keepdims=True))


# DMA


@dataclass(frozen=True)
class Load(ToyInstruction):
    """A part of a DDR tensor into lanes."""

    opcode = 0x20
    engine = Engine.DMA
    result: Operand
    source: Strided

    def reads(self) -> Sequence[Region]:
        return (self.source.region,)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        machine.write(self.result, machine.strided(self.source))


@dataclass(frozen=True)
class Store(ToyInstruction):
    """A tensor in lanes into a part of a DDR tensor."""

    opcode = 0x21
    engine = Engine.DMA
    result: Strided
    source: Operand

    def reads(self) -> Sequence[Region]:
        return (self.source.region,)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        machine.strided(self.result)[...] = machine.read(self.source)


@dataclass(frozen=True)
class LoadBlock(ToyInstruction):
    """`lanes` times `bytes_per_lane` consecutive bytes from DDR, lane after lane."""

    opcode = 0x22
    engine = Engine.DMA
    address: int
    bytes_per_lane: int
    lanes: int
    source: int

    def reads(self) -> Sequence[Region]:
        return (Region("ddr", self.source, self.source + self.lanes * self.bytes_per_lane),)

    def writes(self) -> Sequence[Region]:
        return (Region("lmem", self.address, self.address + self.bytes_per_lane, 0, self.lanes),)

    def execute(self, machine: Machine) -> None:
        data = machine.ddr_bytes(self.source, self.lanes * self.bytes_per_lane)
        target = machine.lane_bytes(self.address, self.bytes_per_lane, self.lanes)
        target[...] = data.reshape(self.lanes, self.bytes_per_lane)


@dataclass(frozen=True)
class Broadcast(ToyInstruction):
    """`bytes_per_lane` bytes from DDR, the same into every lane."""

    opcode = 0x23
    engine = Engine.DMA
    address: int
    bytes_per_lane: int
    source: int

    def reads(self) -> Sequence[Region]:
        return (Region("ddr", self.source, self.source + self.bytes_per_lane),)

    def writes(self) -> Sequence[Region]:
        return (Region("lmem", self.address, self.address + self.bytes_per_lane, 0, LANES),)

    def execute(self, machine: Machine) -> None:
        machine.lane_bytes(self.address, self.bytes_per_lane)[...] = machine.ddr_bytes(self.source, self.bytes_per_lane)


@dataclass(frozen=True)
class Move(ToyInstruction):
    """A DDR tensor into another one of the same extents; they must not overlap."""

    opcode = 0x24
    engine = Engine.DMA
    result: Strided
    source: Strided

    def reads(self) -> Sequence[Region]:
        return (self.source.region,)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        machine.strided(self.result)[...] = machine.strided(self.source)


@dataclass(frozen=True)
class FillDdr(ToyInstruction):
    """One value into every element of a DDR tensor."""

    opcode = 0x25
    engine = Engine.DMA
    result: Strided
    value: float

    def reads(self) -> Sequence[Region]:
        return ()

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)

    def execute(self, machine: Machine) -> None:
        machine.strided(self.result)[...] = self.value


_CLASSES: tuple[type[ToyInstruction], ...] = (
    Fill,
    Conv,
    Requantize,
    MaxPool,
    AveragePool,
    Add,
    Clamp,
    Quantize,
    Dequantize,
    Softmax,
    Load,
    Store,
    LoadBlock,
    Broadcast,
    Move,
    FillDdr,
)
INSTRUCTIONS = {kind.opcode: kind for kind in _CLASSES}
