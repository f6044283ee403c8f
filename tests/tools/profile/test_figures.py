"""The committed figures of small networks do not grow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tpuc.registry import Registry

from benchmarks import cores, untuned
from benchmarks.traffic import FIGURES, MODES, measure, network_file

INSTALLED = Registry().names("tpuc.chips")
CELLS = [(chip, mode) for chip, modes in MODES.items() if chip in INSTALLED for mode in modes]
each_cell = pytest.mark.parametrize(("chip", "mode"), CELLS)


def check(name: str, chip: str, mode: str, data: Path | None, folder: Path) -> None:
    committed = json.loads(FIGURES.read_text())[name][f"{chip} {mode}"]
    figures = measure(name, network_file(name, data, folder), chip, mode, folder)
    grown = {
        key: (committed[key], figures[key])
        for key in ("cycles", "ddr_bytes", "arena_bytes")
        if figures[key] > committed[key]
    }
    assert grown == {}, f"{name} on {chip} in {mode}: if that is wanted, run benchmarks/traffic.py --update {name}"


@each_cell
def test_digits_do_not_grow(chip: str, mode: str, tmp_path: Path) -> None:
    check("digits", chip, mode, None, tmp_path)


@each_cell
def test_resnet8_does_not_grow(chip: str, mode: str, tmp_path: Path, model_data: Path) -> None:
    check("resnet8", chip, mode, model_data, tmp_path)


@pytest.mark.chip("bm1684x")
def test_sequences_do_not_grow(tmp_path: Path) -> None:
    """One of the networks that the planner was not tuned for."""
    row = untuned.read()["tcn"]["f16"]
    figures = untuned.ours("tcn", "f16", tmp_path)
    grown = {key: (row[key], figures[key]) for key in figures if figures[key] > row[key]}
    assert grown == {}, "if that is wanted, run benchmarks/untuned.py --update --mode f16 tcn"


DEARER = {("video", "int8"): 1.04}
"""Rows whose four samples still cost more than four runs, at most by this factor. Volumes over the channels of all
depths made one video three times as fast (68,102 to 22,626 cycles) and four videos 2.9 times (270,053 to 94,080).
"""


@pytest.mark.parametrize("mode", untuned.MODES)
def test_no_committed_row_has_four_samples_dearer_than_four_runs(mode: str) -> None:
    fours = untuned.fours(mode)
    assert set(fours) == set(untuned.NETWORKS)
    dearer = {name: ratio for name, ratio in fours.items() if ratio > DEARER.get((name, mode), 1)}
    assert dearer == {}


@pytest.mark.parametrize("mode", cores.MODES)
def test_no_committed_row_is_slower_on_two_cores(mode: str) -> None:
    rows = {name: found[mode] for name, found in cores.read().items()}
    assert set(rows) == {*cores.TRAINED, *cores.UNTUNED}
    assert [name for name, row in rows.items() if not cores.bound(row) <= row["two"] <= row["one"]] == []


@pytest.mark.chip("bm1688")
@pytest.mark.parametrize("mode", cores.MODES)
def test_two_cores_take_the_committed_cycles(mode: str, tmp_path: Path) -> None:
    assert cores.measure("tcn", None, mode, tmp_path) == cores.read()["tcn"][mode]
