"""What `tpuc profile` shows of a program for two cores: four lanes, and the local memory of each."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tpuc.api import Chip, Engine, LayerCommands, Recorder, Timeline, make_timelines
from tpuc_profile.analysis import analyze, by_layer, name_tensors
from tpuc_profile.page import page_text
from tpuc_profile.report import Report
from tpuc_profile.trace import trace_text

from tests.browser import Browser
from tests.tools.profile.programs import ACTIVATIONS, WEIGHTS, Loaded, Move, Work, cycles, ddr, lmem

CORES = (
    [
        Move(ddr(ACTIVATIONS, 40), lmem(0, 10)),
        Work(lmem(0, 10), lmem(16, 10)),
        Move(lmem(16, 10), ddr(ACTIVATIONS + 64, 40)),
    ],
    [
        Move(ddr(ACTIVATIONS, 40), lmem(0, 20)),
        Work(lmem(0, 20), lmem(40, 20)),
        Move(lmem(40, 20), ddr(ACTIVATIONS + 128, 80)),
    ],
)
LAYERS = [
    LayerCommands("first", "tpu.Conv2D", {"dma": ((1, 2),), "compute": ((1, 1),)}),
    LayerCommands("second", "tpu.Conv2D", {"dma": ((3, 4),), "compute": ((2, 2),)}),
]
"""Commands are counted in the order of the program: those of core 0, then those of core 1."""


class TwoCores(Loaded):
    """Each core computes something of its own."""

    def timeline(self, profile: str) -> Timeline:
        recorder = Recorder()
        for core, instructions in enumerate(CORES):
            recorder.begin(core)
            for instruction in instructions:
                recorder.record(instruction)
        return make_timelines(recorder.parts(), cycles)


@pytest.fixture
def report() -> Report:
    loaded = TwoCores()
    analysis = by_layer(analyze(loaded, loaded.timeline("any"), (WEIGHTS, 100)), LAYERS)
    chip = SimpleNamespace(
        description=SimpleNamespace(name="chip", clock_hz=1_000_000_000, ddr_base=WEIGHTS),
        lmem=SimpleNamespace(lane_bytes=128, lanes=4),
        profile_notes={},
    )
    reasons = name_tensors(analysis, None)
    names = [tensor.name for tensor in analysis.tensors]
    return Report("net.bin", cast(Chip, chip), "any", loaded, analysis, names, reasons)


def test_each_core_has_its_own_figures(report: Report) -> None:
    analysis = report.analysis
    assert [name for _, _, name in analysis.lanes] == ["compute 0", "dma 0", "compute 1", "dma 1"]
    assert [analysis.busy(core, engine) for core, engine, _ in analysis.lanes] == [[10], [10, 10], [20], [20, 20]]
    assert [analysis.lmem_peak_of(core) for core in (0, 1)] == [26, 60]
    assert [(step.compute_cycles, step.dma_cycles) for step in analysis.steps] == [(10, 20), (20, 40)]
    lines = report.text().splitlines()
    assert "compute 0: 1 commands, busy 10 cycles (17%)" in lines
    assert "dma 1: 2 commands, busy 40 cycles (67%)" in lines
    assert "local memory of core 0: 26 of 128 B per lane used" in lines
    assert "local memory of core 1: 60 of 128 B per lane used" in lines
    assert report.to_json()["cores"][1] == {
        "busy_cycles": {"compute": 20, "dma": 40},
        "commands": {"compute": 1, "dma": 2},
        "lmem_peak_bytes_per_lane": 60,
    }


def test_what_a_core_writes_stays_in_its_own_memory(report: Report) -> None:
    lives = {(block.core, block.start, block.end): (block.born, block.read) for block in report.analysis.blocks}
    assert lives == {(0, 0, 10): (0, 20), (0, 16, 26): (10, 30), (1, 0, 20): (0, 40), (1, 40, 60): (20, 60)}


def test_a_trace_has_a_thread_for_each_engine_of_each_core(report: Report) -> None:
    events = json.loads(trace_text(report))["traceEvents"]
    names = {one["tid"]: one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert names == {0: "compute 0", 1: "dma 0", 2: "compute 1", 3: "dma 1", 4: "layers"}
    ends = {one["tid"]: round(1000 * (one["ts"] + one["dur"])) for one in events if one["ph"] == "X"}
    assert ends == {int(Engine.COMPUTE): 20, int(Engine.DMA): 30, 2: 40, 3: 60}


def test_the_page_has_four_lanes_and_two_local_memories(report: Report, chrome: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_text(report), "utf-8")
    with chrome.open(path.as_uri()) as page:
        assert page.value("charts.engines.marks.map(one => one[1])") == ["compute 0", "dma 0", "compute 1", "dma 1"]
        assert page.value("document.querySelector('#engines').dataset.drawn") == "6"
        assert page.value("charts.lmem.marks.map(one => one[1])") == ["core 0", "core 1"]
        size = page.value("data.shown")
        assert page.value("charts.lmem.boxes.map(one => [one.low, one.high])") == [
            [size, size + 10],
            [size + 16, size + 26],
            [0, 20],
            [40, 60],
        ]
