"""The toy chip's commands, against the manual read by hand: plain Python, one element at a time."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_chip import isa
from toy_chip.isa import INSTRUCTIONS, ToyInstruction, decode
from toy_chip.machine import Machine
from toy_chip.operands import DDR_BASE, LANE_BYTES, DType, Four, Layout, Operand, Strided, Window
from toy_chip.timing import cycles
from tpuc.api import (
    CorruptFile,
    IllegalCommand,
    Instruction,
)

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32


def half_up(numerator: int, shift: int) -> int:
    """Numerator / 2**shift, halves upwards, without any shift of a negative number."""
    return math.floor(numerator / 2**shift + 0.5)


def clip(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def filled(shape: Sequence[int], dtype: DType, seed: int = 1) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed)
    if dtype is F32:
        return numbers.normal(0, 3, shape).astype(np.float32)
    limits = np.iinfo(dtype.numpy)
    span = (limits.min, limits.max) if dtype is not I32 else (-(10**5), 10**5)
    return numbers.integers(*span, shape, dtype=np.int64, endpoint=True).astype(dtype.numpy)


def run(*instructions: Instruction, **operands: tuple[Operand, np.ndarray[Any, Any]]) -> Machine:
    """A machine with operands in place, after the instructions."""
    machine = Machine(4096)
    for operand, values in operands.values():
        machine.write(operand, values)
    for instruction in instructions:
        instruction.execute(machine)
    return machine


def each(shape: Sequence[int], value: Callable[..., float]) -> np.ndarray[Any, Any]:
    """An array whose element at an index is `value(*index)`."""
    result = np.zeros(shape)
    for index in itertools.product(*map(range, shape)):
        result[index] = value(*index)
    return result


# Memory


@pytest.mark.parametrize("layout", list(Layout))
def test_channels_lie_across_lanes_and_slots(layout: Layout) -> None:
    operand = Operand(16, (2, 11, 3, 3), I8, layout)
    machine = Machine()
    x = filled(operand.shape, I8)
    machine.write(operand, x)
    plane = 16 if layout is Layout.ALIGNED else 9
    for n, c, h, w in [(0, 0, 0, 0), (1, 7, 2, 1), (0, 8, 1, 2), (1, 10, 2, 2)]:
        lane, slot = c % 8, c // 8
        assert machine.lmem[lane, 16 + (n * 2 + slot) * plane + h * 3 + w] == int(x[n, c, h, w]) % 256
    assert np.array_equal(machine.read(operand), x)


def test_what_lies_between_planes_and_in_other_lanes_stays() -> None:
    machine = Machine()
    before = machine.lmem.copy()
    machine.write(Operand(0, (1, 3, 1, 3), U8), np.zeros((1, 3, 1, 3)))
    changed = {(int(lane), int(at)) for lane, at in np.argwhere(machine.lmem != before)}
    assert changed == {(lane, at) for lane in range(3) for at in range(3)}


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (Operand(2040, (1, 1, 3, 3), I8), "local memory has 8 lanes of 2048 bytes"),
        (Operand(-8, (1, 1, 1, 1), I8), "local memory has 8 lanes"),
        (Operand(4, (1, 1, 1, 1), I8), "its address must be a multiple of 8"),
        (Operand(2, (1, 1, 1, 1), I32, Layout.COMPACT), "its address must be a multiple of 4"),
    ],
)
def test_operands_outside_memory_or_unaligned_are_refused(operand: Operand, sentence: str) -> None:
    with pytest.raises(IllegalCommand, match=sentence):
        Machine().read(operand)


def test_the_last_byte_of_a_lane_can_be_used() -> None:
    assert Machine().read(Operand(LANE_BYTES - 8, (1, 8, 2, 4), U8)).size == 64


# Compute


def test_fill() -> None:
    target = Operand(8, (1, 9, 2, 2), I8)
    assert (run(isa.Fill(target, -5.0)).read(target) == -5).all()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize(
    "window",
    [
        Window((1, 1)),
        Window((3, 3), pads=(1, 1, 1, 1)),
        Window((3, 2), strides=(2, 3), pads=(0, 2, 1, 0)),
        Window((2, 2), dilations=(3, 2), pads=(1, 0, 2, 1)),
    ],
    ids=str,
)
def test_conv(window: Window, dtype: DType, accumulate: bool) -> None:
    ic, oc, size = 10, 9, (7, 6)
    source = Operand(0, (1, ic, *size), dtype)
    x, filters, before = filled(source.shape, dtype), filled((oc, ic, *window.kernel), I8, 2), 12345
    rows, columns = (
        (size[i] + window.pads[i] + window.pads[i + 2] - window.extents[i]) // window.strides[i] + 1 for i in range(2)
    )
    result = Operand(128, (1, oc, rows, columns), I32)
    conv = isa.Conv(result, source, 1024, window, accumulate)
    machine = run(
        isa.Fill(result, float(before)),
        conv,
        source=(source, x),
        filters=(conv.filter_operand, filters.reshape(1, oc, ic, -1)),
    )

    def expected(_: int, o: int, row: int, column: int) -> int:
        total = before if accumulate else 0
        for c, i, j in itertools.product(range(ic), *map(range, window.kernel)):
            h = row * window.strides[0] + i * window.dilations[0] - window.pads[0]
            w = column * window.strides[1] + j * window.dilations[1] - window.pads[1]
            if 0 <= h < size[0] and 0 <= w < size[1]:
                total += int(x[0, c, h, w]) * int(filters[o, c, i, j])
        return total

    assert np.array_equal(machine.read(result), each(result.shape, expected))


def test_conv_sums_wrap_at_32_bits() -> None:
    source, result = Operand(0, (1, 1, 1, 1), U8), Operand(8, (1, 1, 1, 1), I32)
    conv = isa.Conv(result, source, 64, Window((1, 1)), accumulate=True)
    machine = run(
        conv,
        source=(source, np.array(1)),
        filters=(conv.filter_operand, np.array(1)),
        result=(result, np.array(2**31 - 1)),
    )
    assert machine.read(result).item() == -(2**31)


@pytest.mark.parametrize("dtype", [I8, U8])
def test_requantize(dtype: DType) -> None:
    source, result = Operand(0, (1, 10, 2, 3), I32), Operand(256, (1, 10, 2, 3), dtype)
    x = filled(source.shape, I32)
    requantize = isa.Requantize(result, source, 512, 3)
    bias, multiplier = filled((10,), I32, 2), filled((10,), I32, 3)
    shift = np.arange(20, 30)
    parameters = np.stack([bias, multiplier, shift], axis=1).reshape(1, 10, 1, 3)
    machine = run(requantize, source=(source, x), parameters=(requantize.parameter_operand, parameters))
    low, high = (-128, 127) if dtype is I8 else (0, 255)

    def expected(n: int, c: int, h: int, w: int) -> int:
        product = (int(x[n, c, h, w]) + int(bias[c])) * int(multiplier[c])
        return clip(half_up(product, int(shift[c])) + 3, low, high)

    assert np.array_equal(machine.read(result), each(result.shape, expected))


def test_the_bias_saturates_the_sum() -> None:
    source, result = Operand(0, (1, 1, 1, 1), I32), Operand(8, (1, 1, 1, 1), U8)
    requantize = isa.Requantize(result, source, 512)
    parameters = np.array([2**31 - 1, 1, 24]).reshape(1, 1, 1, 3)
    machine = run(requantize, source=(source, np.array(10**9)), parameters=(requantize.parameter_operand, parameters))
    assert machine.read(result).item() == 128  # 2**31 - 1 over 2**24; the wrapped sum would be negative


def pooled(x: np.ndarray[Any, Any], window: Window, n: int, c: int, row: int, column: int) -> list[int]:
    """What lies under a window, padding left out."""
    taps: list[int] = []
    for i, j in itertools.product(*map(range, window.kernel)):
        h, w = row * window.strides[0] + i - window.pads[0], column * window.strides[1] + j - window.pads[1]
        if 0 <= h < x.shape[2] and 0 <= w < x.shape[3]:
            taps.append(int(x[n, c, h, w]))
    return taps


POOL = Window((3, 2), strides=(2, 1), pads=(1, 0, 1, 1))


@pytest.mark.parametrize("dtype", [I8, U8])
def test_max_pool(dtype: DType) -> None:
    source, result = Operand(0, (2, 9, 5, 4), dtype), Operand(512, (2, 9, 3, 4), dtype)
    x = filled(source.shape, dtype)
    machine = run(isa.MaxPool(result, source, POOL), source=(source, x))
    assert np.array_equal(machine.read(result), each(result.shape, lambda *at: max(pooled(x, POOL, *at))))


@pytest.mark.parametrize("dtype", [I8, U8])
def test_average_pool(dtype: DType) -> None:
    source, result = Operand(0, (1, 9, 5, 4), dtype), Operand(512, (1, 9, 3, 4), dtype)
    x = filled(source.shape, dtype)
    low, high = (-128, 127) if dtype is I8 else (0, 255)
    machine = run(isa.AveragePool(result, source, POOL, 107, 8), source=(source, x))
    expected = each(result.shape, lambda *at: clip(half_up(sum(pooled(x, POOL, *at)) * 107, 8), low, high))
    assert np.array_equal(machine.read(result), expected)


def test_a_window_that_does_not_fill_its_result_is_refused() -> None:
    source, result = Operand(0, (1, 1, 4, 4), I8), Operand(512, (1, 1, 4, 4), I8)
    with pytest.raises(IllegalCommand, match=r"positions, the result"):
        run(isa.MaxPool(result, source, Window((2, 2))), source=(source, np.array(0)))
    with pytest.raises(IllegalCommand, match="larger than its padded input of 4x4"):
        run(isa.MaxPool(result, source, Window((5, 2))), source=(source, np.array(0)))


@pytest.mark.parametrize("right_shape", [(1, 9, 2, 3), (1, 9, 1, 1), (1, 1, 1, 1)])
def test_add(right_shape: Four) -> None:
    left, right, result = Operand(0, (1, 9, 2, 3), I8), Operand(64, right_shape, U8), Operand(128, (1, 9, 2, 3), I8)
    x, y = filled(left.shape, I8), filled(right.shape, U8, 2)
    machine = run(isa.Add(result, left, right, (-77, 101), (6, 7)), left=(left, x), right=(right, y))
    wide = np.broadcast_to(y, left.shape)

    def expected(*at: int) -> int:
        return clip(half_up(int(x[at]) * -77, 6) + half_up(int(wide[at]) * 101, 7), -128, 127)

    assert np.array_equal(machine.read(result), each(result.shape, expected))


def test_add_saturates_each_term_to_16_bits() -> None:
    one = (1, 1, 1, 1)
    left, right, result = Operand(0, one, U8), Operand(8, one, U8), Operand(16, one, I8)
    add = isa.Add(result, left, right, (1000, -1000), (0, 0))
    machine = run(add, left=(left, np.array(255)), right=(right, np.array(32)))
    assert machine.read(result).item() == clip(32767 - 32000, -128, 127)


def test_clamp_works_in_place() -> None:
    tensor = Operand(0, (1, 9, 3, 3), I8)
    x = filled(tensor.shape, I8)
    machine = run(isa.Clamp(tensor, tensor, -3, 50), tensor=(tensor, x))
    assert np.array_equal(machine.read(tensor), each(tensor.shape, lambda *at: clip(int(x[at]), -3, 50)))


@pytest.mark.parametrize("dtype", [I8, U8])
def test_quantize_rounds_halves_away_from_zero(dtype: DType) -> None:
    x = np.array([0.5, -0.5, 1.5, -1.5, 2.4999, 1e9, -1e9, np.nan, 63.75], np.float32).reshape(1, 9, 1, 1)
    source, result = Operand(0, x.shape, F32), Operand(64, x.shape, dtype)
    machine = run(isa.Quantize(result, source, 1.0), source=(source, x))
    low, high = (-128, 127) if dtype is I8 else (0, 255)
    expected = [clip(value, low, high) for value in (1, -1, 2, -2, 2, 10**9, -(10**9), 0, 64)]
    assert machine.read(result).reshape(-1).tolist() == expected


def test_quantize_multiplies_in_single_precision() -> None:
    source, result = Operand(0, (1, 1, 1, 1), F32), Operand(64, (1, 1, 1, 1), I8)
    x, factor = np.float32(0.7), float(np.float32(1 / 0.2))
    assert float(x) * factor < 3.5  # in double precision it would be 3
    machine = run(isa.Quantize(result, source, factor), source=(source, np.asarray(x)))
    assert machine.read(result).item() == 4


def test_dequantize() -> None:
    source, result = Operand(0, (1, 9, 2, 2), I8), Operand(64, (1, 9, 2, 2), F32)
    x, scale = filled(source.shape, I8), float(np.float32(0.1))
    machine = run(isa.Dequantize(result, source, scale, 5), source=(source, x))
    expected = each(result.shape, lambda *at: (int(x[at]) - 5) * scale).astype(np.float32)
    assert np.array_equal(machine.read(result), expected)


def test_softmax() -> None:
    tensor = Operand(0, (1, 9, 1, 7), F32, Layout.COMPACT)
    x = filled(tensor.shape, F32)
    machine = run(isa.Softmax(tensor, tensor, 0.5), tensor=(tensor, x))

    def expected(n: int, c: int, h: int, w: int) -> float:
        powers = [math.exp(0.5 * float(value)) for value in x[n, c, h]]
        return powers[w] / sum(powers)

    assert np.allclose(machine.read(tensor), each(tensor.shape, expected), rtol=1e-5)  # float32 against double


# DMA


def test_load_and_store_with_strides() -> None:
    """A 2x9x2x3 part of a 2x12x4x5 tensor comes in, and goes out transposed."""
    machine = Machine(4096)
    source = filled((2, 12, 4, 5), I8)
    machine.ddr[: source.size] = source.reshape(-1).view(np.uint8)
    local = Operand(64, (2, 9, 2, 3), I8)
    isa.Load(local, Strided(DDR_BASE + 2 * 20 + 5 + 1, local.shape, (240, 20, 5, 1), I8)).execute(machine)
    part = source[:, 2:11, 1:3, 1:4]
    assert np.array_equal(machine.read(local), part)
    isa.Store(Strided(DDR_BASE + 1024, local.shape, (54, 1, 9, 18), I8), local).execute(machine)
    stored = machine.ddr[1024 : 1024 + 108].view(np.int8).reshape(2, 3, 2, 9)
    assert np.array_equal(stored, part.transpose(0, 3, 2, 1))


def test_block_goes_to_lane_after_lane_and_broadcast_to_all() -> None:
    machine = Machine(64)
    machine.ddr[:] = np.arange(64)
    isa.LoadBlock(8, 5, 3, DDR_BASE + 10).execute(machine)
    assert machine.lmem[:4, 8:13].tolist() == [
        [10, 11, 12, 13, 14],
        [15, 16, 17, 18, 19],
        [20, 21, 22, 23, 24],
        [0xA5] * 5,
    ]
    isa.Broadcast(3, 2, DDR_BASE + 40).execute(machine)
    assert machine.lmem[:, 3:5].tolist() == [[40, 41]] * 8


def test_move_transposes_within_ddr() -> None:
    machine = Machine(256)
    values = np.arange(6, dtype=np.int32)
    machine.ddr[:24] = values.view(np.uint8)
    shape = (1, 1, 3, 2)
    isa.Move(Strided(DDR_BASE + 64, shape, (0, 0, 2, 1), I32), Strided(DDR_BASE, shape, (0, 0, 1, 3), I32)).execute(
        machine
    )
    assert machine.ddr[64:88].view(np.int32).tolist() == [0, 3, 1, 4, 2, 5]


def test_fill_in_ddr_leaves_the_gaps() -> None:
    machine = Machine(8)
    isa.FillDdr(Strided(DDR_BASE + 1, (1, 1, 2, 2), (0, 0, 4, 2), I8), -1.0).execute(machine)
    assert machine.ddr.tolist() == [0, 255, 0, 255, 0, 255, 0, 255]


@pytest.mark.parametrize("address", [DDR_BASE - 1, DDR_BASE + 60])
def test_ddr_ends_where_the_program_ends(address: int) -> None:
    with pytest.raises(IllegalCommand, match=r"this program's DDR is 0x10000000 to 0x10000040"):
        isa.Broadcast(0, 8, address).execute(Machine(64))


# Encoding

ONE = Operand(8, (1, 2, 3, 4), I8)
EXAMPLES: tuple[ToyInstruction, ...] = (
    isa.Fill(ONE, 2.5),
    isa.Conv(ONE, ONE, 24, Window((3, 2), (2, 1), (0, 1, 2, 3), (1, 4)), accumulate=True),
    isa.Requantize(ONE, ONE, 64, -7),
    isa.MaxPool(ONE, ONE, POOL),
    isa.AveragePool(ONE, ONE, POOL, 77, 9),
    isa.Add(ONE, ONE, ONE, (3, -4), (5, 6)),
    isa.Clamp(ONE, ONE, -8, 7),
    isa.Quantize(ONE, ONE, 0.125, 3),
    isa.Dequantize(ONE, ONE, 0.125, 3),
    isa.Softmax(ONE, ONE, 0.5),
    isa.Load(ONE, Strided(DDR_BASE, (1, 2, 3, 4), (24, 12, 4, 1), I8)),
    isa.Store(Strided(DDR_BASE, (1, 2, 3, 4), (24, 12, 4, 1), I8), ONE),
    isa.LoadBlock(0, 16, 8, DDR_BASE + 5),
    isa.Broadcast(0, 16, DDR_BASE + 5),
    isa.Move(Strided(DDR_BASE, (1, 1, 1, 4), (0, 0, 0, 1), U8), Strided(DDR_BASE + 9, (1, 1, 1, 4), (0, 0, 0, 1), U8)),
    isa.FillDdr(Strided(DDR_BASE, (1, 2, 3, 4), (24, 12, 4, 1), I8), -7.0),
)


def test_there_is_an_example_of_every_command() -> None:
    assert {type(example) for example in EXAMPLES} == set(INSTRUCTIONS.values())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_encode_and_decode_are_inverse(example: ToyInstruction) -> None:
    (command,) = decode(example.encode(7, 3))
    assert command.instruction == example
    assert (command.number, command.wait) == (7, 3)
    assert cycles(example) > 0
    assert type(example).__name__ in example.describe()


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_changed_word_is_refused_or_decodes_to_something_else(example: ToyInstruction, data: st.DataObject) -> None:
    encoded = example.encode(1, 0)
    at = data.draw(st.integers(3, len(encoded) // 4 - 1)) * 4
    word = data.draw(st.binary(min_size=4, max_size=4).filter(lambda new: new != encoded[at : at + 4]))
    try:
        (command,) = decode(encoded[:at] + word + encoded[at + 4 :])
    except IllegalCommand:
        return
    assert command.instruction != example


def test_a_load_is_encoded_as_the_manual_says() -> None:
    words = (8, 1, 2, 3, 4, 0, 0, DDR_BASE, 1, 2, 3, 4, 24, 12, 4, 1, 0)
    expected = struct.pack("<HHII", 0x20, len(words), 1, 0) + struct.pack(f"<{len(words)}i", *words)
    assert EXAMPLES[10].encode(1, 0) == expected


def test_illegal_streams_are_refused() -> None:
    good = EXAMPLES[0].encode(1, 0)
    with pytest.raises(CorruptFile, match="ends within a header"):
        decode(good + b"\1")
    with pytest.raises(CorruptFile, match="ends within command 1"):
        decode(good[:-1])
    with pytest.raises(IllegalCommand, match="there is no opcode 0xee"):
        decode(b"\xee" + good[1:])
    with pytest.raises(IllegalCommand, match="the fields of a Fill are wrong"):
        decode(struct.pack("<HHII", 0x10, 1, 1, 0) + bytes(4))
