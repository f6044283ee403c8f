"""Cycles against the vendor compiler's own estimates, kept in `goldens/cycles.json.gz`, and the timeline."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import Engine, Instruction, derive_waits
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    ChannelBroadcast,
    Conv,
    DType,
    Layout,
    Operand,
    TensorCopy,
    TransposeNC,
)
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.timing import cycles, timeline

from tests.families import each

FILE = Path(__file__).parents[1] / "goldens" / "cycles.json.gz"
MEASURED: list[tuple[int, str, int]] = json.loads(gzip.decompress(FILE.read_bytes()))


def decoded(engine: int, text: str) -> Any:
    data = bytes.fromhex(text + "0" * (len(text) % 2)).ljust(16, b"\0")
    table = identify(Engine(engine), int.from_bytes(data[:16], "little"))
    return decode_fields(table, table.unpack(data.ljust(table.length_bytes, b"\0")))


def test_nearly_all_estimates_are_equal_and_their_sum_is_within_half_a_percent() -> None:
    pairs = [(cycles(decoded(engine, text)), expected) for engine, text, expected in MEASURED]
    different = [(ours, expected) for ours, expected in pairs if abs(ours - expected) > max(1, 0.02 * expected)]
    assert len(different) <= 0.01 * len(pairs), different
    ours, expected = (sum(pair[index] for pair in pairs) for index in (0, 1))
    assert ours == pytest.approx(expected, rel=0.005)


def load(size: int, channels: int = 64) -> TensorCopy:
    shape = (1, channels, 1, size)
    return TensorCopy(source=DDR_BASE, destination=isa.lmem(0), shape=shape, dtype=DType.INT8)


def test_a_convolution_takes_one_step_per_4_pixels_64_inputs_and_64_outputs() -> None:
    conv = Conv(
        result=Operand(0x4000, DType.INT32),
        result_shape=(1, 80, 12, 14),
        input=Operand(0, DType.INT8),
        input_shape=(16, 12, 14),
        weight=Operand(0x8000, DType.INT8, Layout.COMPACT),
        kernel=(3, 3),
        pads=(1, 1, 1, 1),
    )
    assert cycles(conv) == 2 * 42 * 9  # two groups of output channels, 168 / 4 pixels, 9 taps


@each(("h", "w", "dtype", "plain", "strided"), [(512, 1, DType.INT32, 2259, 35), (32, 32, DType.F32, 141, 70)])
def test_a_broadcast_without_strides_counts_rows_apart(h: int, w: int, dtype: DType, plain: int, strided: int) -> None:
    shape, strides = (1, 1, h, w), (h * w, h * w, w, 1)
    copy = ChannelBroadcast(source=DDR_BASE, destination=isa.lmem(0), shape=shape, channels=64, dtype=dtype)
    stated = dataclasses.replace(copy, source_strides=strides, destination_strides=strides)
    assert (cycles(copy), cycles(stated)) == (plain, strided)


@each(("channels", "expected"), [(300, 2843), (512, 4853), (513, 3241), (1024, 4853)])
def test_a_transpose_without_strides_spreads_as_if_planes_were_aligned(channels: int, expected: int) -> None:
    shape = (1, channels, 1, 1)
    assert cycles(TransposeNC(source=DDR_BASE, destination=isa.lmem(0), shape=shape, dtype=DType.F32)) == expected


@each(("result", "expected"), [(0x4000, 11), (0x100, 22)])
def test_arithmetic_in_place_takes_twice_as_long(result: int, expected: int) -> None:
    x = Operand(0x100, DType.INT32)
    shape = (1, 64, 12, 14)
    add = Arithmetic(operation=ArithmeticOp.ABS, shape=shape, result=Operand(result, DType.INT32), left=x)
    assert cycles(add) == expected


@each(
    ("size", "expected"),
    [
        (1, 64 * 256 * 4),  # short lines cost 256 bytes each, and all start in one page: a quarter of the speed
        (64, 64 * 256 * 4),
        (128, 64 * 256 * 2),  # two pages
        (1024, 64 * 1024),
    ],
)
def test_short_lines_and_few_pages_make_a_load_slow(size: int, expected: int) -> None:
    assert cycles(load(size)) == int(expected / (58e9 / 2**30))


def test_engines_overlap_where_no_wait_forbids_it() -> None:
    x, y, z = (Operand(address, DType.INT8) for address in (0, 0x2000, 0x3000))
    shape = (1, 64, 1, 1024)
    double = Arithmetic(operation=ArithmeticOp.ADD, shape=shape, result=y, left=x, right=x)
    other = Arithmetic(operation=ArithmeticOp.ADD, shape=shape, result=z, left=z, right=z)
    program: list[Instruction] = [load(1024), double, other]
    assert cycles(load(1024)) == 1213
    assert cycles(double) == 16
    streams = {e: [c for c in derive_waits(program) if c.engine is e] for e in Engine}
    (waiting,) = timeline([(streams[Engine.COMPUTE], streams[Engine.DMA])])
    assert waiting.cycles == 1213 + 16 + 32
    program = [other, load(1024), double]
    streams = {e: [c for c in derive_waits(program) if c.engine is e] for e in Engine}
    (overlapped,) = timeline([(streams[Engine.COMPUTE], streams[Engine.DMA])])
    assert overlapped.cycles == 1213 + 16
