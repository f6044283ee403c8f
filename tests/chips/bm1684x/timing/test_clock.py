"""Random commands of every class cost what the vendor's clock says: thousands kept as a golden file, and fresh ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import Engine, Instruction
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.timing import cycles

from tests.chips.bm1684x.draw import Draw
from tests.chips.bm1684x.timing import compute_commands, dma_commands, window_commands
from tests.chips.bm1684x.timing.vendor import vendor_clock

GOLDEN = Path(__file__).parents[1] / "goldens" / "clock.json.gz"
"""[engine, bytes of the command, cycles]: 4,000 commands drawn with seed 0, timed by the vendor's kernel library."""
KINDS = dma_commands.KINDS + compute_commands.KINDS + window_commands.KINDS
UNTIMED = 0.03
"""At most so many have no call of the vendor's that emits the same bytes."""


def commands(count: int, seed: int) -> list[Instruction]:
    """Of every kind in turn."""
    draw = Draw(np.random.default_rng(seed))
    return [KINDS[number % len(KINDS)](draw) for number in range(count)]


def vendor_cycles(folder: Path, instructions: Sequence[Instruction]) -> list[int | None]:
    """By the clock in the folder of oracle tools; None where it has no call for a command."""
    return vendor_clock(folder).vendor_cycles(instructions)


def decoded(engine: int, text: str) -> Any:
    data = bytes.fromhex(text)
    table = identify(Engine(engine), int.from_bytes(data[:16], "little"))
    return decode_fields(table, table.unpack(data))


def test_thousands_of_kept_commands_cost_what_the_vendor_says() -> None:
    kept: list[tuple[int, str, int]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    assert len(kept) > 3500
    wrong = [(cycles(decoded(engine, text)), cost, text) for engine, text, cost in kept]
    assert [row for row in wrong if row[0] != row[1]] == []


@pytest.mark.interop
def test_fresh_commands_cost_what_the_vendor_says(oracle_dir: Path) -> None:
    drawn = commands(20_000, seed=1)
    timed = [(command, cost) for command, cost in zip(drawn, vendor_cycles(oracle_dir, drawn), strict=True)]
    assert sum(cost is None for _, cost in timed) < UNTIMED * len(drawn)
    kinds = Counter(type(command).__name__ for command, cost in timed if cost is not None)
    assert set(kinds) == {type(command).__name__ for command in drawn}
    wrong = [(cycles(command), cost, command) for command, cost in timed if cost not in (None, cycles(command))]
    assert wrong == []
