"""Random commands cost what the vendor's clock of this generation says: some kept as a golden file, and fresh ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tpuc.api import Engine
from tpuc_bm1684x.timing import cycles
from tpuc_bm1688.target import CV186X, PROFILES

from tests.chips.bm1688.timing.commands import commands
from tests.chips.bm1688.timing.vendor import Clock, decoded
from tests.families import each

GOLDEN = Path(__file__).parents[1] / "goldens" / "clock.json.gz"
"""[engine, bytes of the command, cycles]: commands drawn with seed 0, timed by the vendor's kernel library."""
EQUAL, UNTIMED = 0.995, 0.05
"""Least share of equal costs, and at most so many commands without a call that emits the same bytes."""
MOST_APART = 1
"""Cycles of difference where the library rounds otherwise: odd parts of the DDR channels, transposed matrices."""


def test_kept_commands_cost_what_the_vendor_says() -> None:
    kept: list[tuple[int, str, int]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    assert len(kept) > 2000
    pairs = [(cycles(one), cost) for engine, text, cost in kept for one in decoded(Engine(engine), bytes.fromhex(text))]
    assert len(pairs) == len(kept)
    assert all(abs(ours - cost) <= MOST_APART for ours, cost in pairs)
    assert sum(ours == cost for ours, cost in pairs) >= EQUAL * len(pairs)


@pytest.mark.interop
@each("profile", PROFILES)
def test_fresh_commands_cost_what_the_vendor_says(profile: str, oracle_dir: Path) -> None:
    drawn = commands(20_000, seed=1)
    with Clock(oracle_dir, profile) as clock:
        costs = clock.costs(drawn)
    timed = [(one, cost) for one, cost in zip(drawn, costs, strict=True) if isinstance(cost, int)]
    assert len(timed) > (1 - UNTIMED) * len(drawn)
    assert {type(one) for one, _ in timed} == {type(one) for one in drawn}
    apart = [(cycles(one, PROFILES[profile].rates) - cost, one.describe()) for one, cost in timed]
    assert [one for one in apart if abs(one[0]) > MOST_APART] == []
    assert sum(difference == 0 for difference, _ in apart) >= EQUAL * len(timed)


def test_profiles_are_those_of_the_target() -> None:
    from tpuc_bm1688.chip import CHIP

    assert CHIP.profiles == tuple(PROFILES)
    assert CHIP.planned_profiles == CHIP.profiles[:1]
    copy = decoded(Engine.DMA, CV186X.layouts["DMA_tensor"].pack({"cmd_type": 0, "src_nsize": 1} | _COPY))[0]
    assert CHIP.cycles(copy, "shared") > CHIP.cycles(copy, "vendor")


_SIZES = {"n": 1, "c": 32, "h": 32, "w": 32}
_COPY = {"src_start_addr_h8": 0xA0, "nchw_copy": 1} | {
    f"{side}_{axis}size": extent for side in ("src", "dst") for axis, extent in _SIZES.items()
}
