"""Cycles of single commands in both timing models, and which of them plans are made for."""

from __future__ import annotations

from tpuc_cv18.base import Cv18Chip
from tpuc_cv18.isa import DType, Fill, Target, TensorCopy, gmem
from tpuc_cv18.timing import cycles

from tests.chips.cv18xx import NAMES, TARGETS
from tests.families import each

INT8 = DType.INT8
SHAPE = (1, 1, 1, 4096)
LOAD = TensorCopy(source=gmem(0), destination=0, shape=SHAPE, dtype=INT8)
STORE = TensorCopy(source=0, destination=gmem(0), shape=SHAPE, dtype=INT8)
LOCAL = TensorCopy(source=0, destination=0x4000, shape=SHAPE, dtype=INT8)
FILL = Fill(destination=0, shape=SHAPE, value=0, dtype=INT8)
BOARD = {
    # 4096 bytes at 3732 MB/s and 750 MHz; 145 and 98 cycles of 650 MHz are 167 and 113 of 750 MHz.
    "cv182x": (823 + 167, 823 + 113),
    # The same at 500 MHz, where they are 111 and 75.
    "cv181x": (548 + 111, 548 + 75),
    # 2666 MB/s.
    "cv180x": (768 + 111, 768 + 75),
}


@each("target", TARGETS, ids=NAMES)
def test_transfers_of_a_board_start_as_on_a_measured_chip(target: Target) -> None:
    assert (cycles(LOAD.on(target), "board"), cycles(STORE.on(target), "board")) == BOARD[target.name]
    whole = 4096 * target.clock_hz // (1886_000_000 * 4)
    assert cycles(LOAD.on(target), "vendor") == cycles(STORE.on(target), "vendor") == whole


@each("target", TARGETS, ids=NAMES)
def test_copies_in_local_memory_start_at_once_and_fills_take_nothing_but_the_start(target: Target) -> None:
    assert cycles(LOCAL.on(target), "board") == 4096 * target.clock_hz // target.profiles["board"].ddr_bytes_per_second
    assert cycles(FILL.on(target), "board") == 98 * target.clock_hz // 650_000_000


@each("target", TARGETS, ids=NAMES)
def test_plans_are_made_for_the_board(target: Target) -> None:
    chip = Cv18Chip(target)
    assert chip.profiles == ("board", "vendor")
    assert chip.planned_profiles == ("board",)
