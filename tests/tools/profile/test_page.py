"""The page of `tpuc profile --html` in a browser: charts and rows lead to each other, large programs stay quick."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tpuc.api import Chip, Engine, LayerCommands
from tpuc_driver.cli import main
from tpuc_profile.analysis import analyze, by_layer, name_tensors
from tpuc_profile.colors import colors_of
from tpuc_profile.groups import groups_of
from tpuc_profile.page import page_text
from tpuc_profile.report import Report

from tests.browser import Browser, Page
from tests.tools.conftest import Keep
from tests.tools.profile.programs import ACTIVATIONS, WEIGHTS, Loaded, Move, Work, ddr, lmem

ROOT = Path(__file__).resolve().parents[3]
LANE_BYTES, STEP_BYTES = 1024, 128
DIGITS = "relu1 relu2 maxpool1 relu3 average scores probabilities"


def report_of(layers: int) -> Report:
    """A chain: each layer loads constants and computes; each fourth result goes to DDR and comes back."""
    program: list[Move] = [Move(ddr(ACTIVATIONS, 40), lmem(0, 10))]
    commands: list[LayerCommands] = []
    counts = {"compute": 0, "dma": 1}
    for number in range(layers):
        low, high = (number % 6 * STEP_BYTES, (number + 1) % 6 * STEP_BYTES)
        steps: list[Move] = [Move(ddr(WEIGHTS, 20), lmem(LANE_BYTES - 20, 5)), Work(lmem(low, 10), lmem(high, 30))]
        if number % 4 == 3:
            steps += [
                Move(lmem(high, 30), ddr(ACTIVATIONS + 64, 120)),
                Move(ddr(ACTIVATIONS + 64, 120), lmem(high, 30)),
            ]
        own: dict[str, list[tuple[int, int]]] = {"compute": [], "dma": []}
        for step in steps:
            name = step.engine.name.lower()
            counts[name] += 1
            own[name].append((counts[name], counts[name]))
        if not number:
            own["dma"].insert(0, (1, 1))
        program += steps
        ranges = {engine: tuple(found) for engine, found in own.items()}
        commands.append(LayerCommands(f"block{number // 10}.conv{number}", "tpu.Conv2D", ranges))
    loaded = Loaded(program)
    analysis = by_layer(analyze(loaded, loaded.timeline("any"), (WEIGHTS, 100)), commands)
    reasons = name_tensors(analysis, None)
    chip = SimpleNamespace(
        description=SimpleNamespace(name="chip", clock_hz=1_000_000_000, ddr_base=WEIGHTS),
        lmem=SimpleNamespace(lane_bytes=LANE_BYTES, lanes=4),
        profile_notes={},
    )
    names = [tensor.name for tensor in analysis.tensors]
    return Report("net.bin", cast(Chip, chip), "any", loaded, analysis, names, reasons)


def view_of(page: Page) -> tuple[float, float]:
    first, last = page.value("document.querySelector('#charts').dataset.view").split()
    return float(first), float(last)


def drawn(page: Page) -> dict[str, int]:
    text = (
        "Object.fromEntries([...document.querySelectorAll('canvas')].map(one => [one.id, Number(one.dataset.drawn)]))"
    )
    return page.value(text)


def chosen(page: Page) -> str | None:
    return page.value("document.querySelector('#layers tr.chosen')?.cells[0].textContent.trim()")


def shown_rows(page: Page) -> int:
    return page.value("[...document.querySelectorAll('#layers tbody tr')].filter(one => !one.hidden).length")


def first_cells(page: Page, column: int) -> Sequence[Any]:
    return page.value(
        f"[...document.querySelectorAll('#layers tbody tr')].map(one => Number(one.cells[{column}].dataset.v))"
    )


def test_layers_of_large_networks_are_grouped_by_their_names() -> None:
    """By the finest whole parts that have room; a few layers of another name count to the block before them."""
    names = [
        "images",
        *(f"/model.{block}/cv{one}/conv/Conv_{n}" for block in range(22) for one in (1, 2) for n in (1, 2, 3, 4)),
    ]
    names[20:20] = ["onnx::Reshape_7"]
    found = groups_of(names)
    assert (found[0].first, found[0].last) == (0, 0)
    assert [group.name for group in found[1:]] == [f"model/{block}" for block in range(22)]
    assert [found[0].first, *(group.last + 1 for group in found)] == [*(group.first for group in found), len(names)]
    assert groups_of(names[:150]) == []
    numbered = groups_of([f"v{number}" for number in range(1000)])
    assert [(group.name, group.last - group.first) for group in numbered[:2]] == [("v0 ...", 24), ("v25 ...", 24)]
    assert len(numbered) == 40


def test_a_grouped_page_leads_from_blocks_to_layers(chrome: Browser, tmp_path: Path) -> None:
    report = report_of(300)
    path = tmp_path / "page.html"
    path.write_text(page_text(report), "utf-8")
    with chrome.open(path.as_uri()) as page:
        assert drawn(page)["groups"] == 30
        legend = "[...document.querySelectorAll('#legend button')].map(one => one.textContent)"
        assert set(page.value(legend)) <= {f"block{number}" for number in range(30)}
        page.click("#legend button")
        first, last = view_of(page)
        assert 0 <= first < last < report.cycles / 8
        assert all(name.startswith("block") and ".conv" in name for name in page.value(legend))


@pytest.mark.parametrize("layers", [300, 2000])
def test_a_large_program_can_be_looked_through(layers: int, chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    report = report_of(layers)
    path = tmp_path / "page.html"
    path.write_text(page_text(report), "utf-8")
    with chrome.open(path.as_uri()) as page:
        assert drawn(page)["engines"] == len(report.analysis.timeline.entries)
        assert page.value(
            "data.tensors.filter(one => one[6] === 'constant').map(one => [one[1] - one[0], one[3]])"
        ) == [[report.loaded.memory["weights"], report.cycles]]
        assert drawn(page)["ddr"] == len(report.analysis.tensors) + 1
        assert view_of(page) == (0, report.cycles)
        assert shown_rows(page) == layers
        keep(page, f"profile-{layers}")
        page.press("/")
        page.type("conv250")
        assert shown_rows(page) == 1
        page.click("#layers tbody tr:not([hidden])")
        step = report.analysis.steps[250]
        first, last = view_of(page)
        assert 0 < first < step.start < step.end < last
        assert last - first < 2 * (step.end - step.start)
        assert 0 < drawn(page)["engines"] < 40
        assert chosen(page) == "block25.conv250"
        page.click("#search")
        page.press("Escape")  # empties the field
        assert shown_rows(page) == layers
        page.press("Escape")
        assert view_of(page) == (0, report.cycles)
        assert chosen(page) is None
        page.click("#layers th:nth-child(6) button")
        page.click("#layers th:nth-child(6) button")
        busy = first_cells(page, 5)
        assert busy == sorted((step.dma_cycles for step in report.analysis.steps), reverse=True)


def test_charts_and_rows_lead_to_each_other(chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    report = report_of(8)
    path = tmp_path / "page.html"
    path.write_text(page_text(report), "utf-8")
    with chrome.open(path.as_uri()) as page:
        x, y = page.place("#engines")
        area = "document.querySelector('#engines').getBoundingClientRect()"
        left, top, width = (page.value(f"{area}.{name}") for name in ("x", "y", "width"))

        def at(cycle: float) -> float:
            first, last = view_of(page)
            return left + 62 + (cycle - first) / (last - first) * (width - 62)

        work = [e for e in report.analysis.timeline.entries if e.command.engine is Engine.COMPUTE][5]
        page.click_at(at((work.start + work.end) / 2), top + 24)  # the upper of the two engines
        assert chosen(page) == "block0.conv5"
        page.mouse("mouseMoved", at((work.start + work.end) / 2), top + 24)
        assert page.value("document.querySelector('#tip').textContent").startswith("block0.conv5\nwork </script>")
        page.press("Escape")
        for steps, holds in ((-1, (report.cycles * 0.8)), (1, report.cycles)):
            page.wheel(x, y, steps)
            first, last = view_of(page)
            assert last - first == pytest.approx(holds, rel=1e-9)  # products of floats
        page.wheel(x, y, -1)
        before = view_of(page)
        page.drag((x, y), (x + 100, y))
        assert view_of(page)[0] < before[0]
        page.value("document.querySelector('#engines').focus()")
        page.press("ArrowRight")
        page.press("+", "+")
        assert view_of(page)[1] - view_of(page)[0] < before[1] - before[0]
        page.click("#whole")
        page.click("#legend button:nth-child(3)")
        assert chosen(page) == "block0.conv2"
        page.value("document.querySelector('#layers tr.chosen').focus()")
        page.press("ArrowDown")
        assert chosen(page) == "block0.conv3"
        page.click("#show-tensors")
        assert page.value(
            "document.querySelector('#pane-layers').hidden && !document.querySelector('#pane-tensors').hidden"
        )
        page.click("#show-all")
        assert "net.bin: " in page.value("document.querySelector('#pane-all').textContent")


def ground(page: Page) -> str:
    return page.value("getComputedStyle(document.body).backgroundColor")


@pytest.mark.chip("bm1684x")
def test_it_is_dark_where_the_system_or_the_reader_says_so(
    chrome: Browser, keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, path = tmp_path / "digits.bmodel", tmp_path / "page.html"
    network = ROOT / "examples" / "digits" / "digits.onnx"
    assert main(["compile", str(network), "--chip", "bm1684x", "-o", str(file)]) == 0
    assert main(["profile", str(file), "--html", str(path)]) == 0
    with chrome.open(path.as_uri(), dark=True) as page:
        names = page.value("[...document.querySelectorAll('#legend button')].map(one => one.textContent).join(' ')")
        assert set(DIGITS.split()) <= set(names.split())  # from the file itself
        assert page.value("[...document.querySelectorAll('#layers tbody tr')].map(one => one.cells[7].textContent)")
        dark = ground(page)
        keep(page, "profile-digits-dark")
        page.prefer(dark=False)
        light = ground(page)
        assert light != dark
        page.click("#theme")
        page.click("#theme")
        assert (page.value("document.querySelector('#theme').textContent"), ground(page)) == ("colors: dark", dark)
        page.click("#theme")
        assert ground(page) == light
        keep(page, "profile-digits")


def test_neighbors_have_different_colors() -> None:
    analysis = report_of(300).analysis
    colors = colors_of(analysis)
    assert len(set(colors)) == 12
    assert all(one != other for one, other in pairwise(colors))
    for engine in Engine:
        steps = [
            step
            for entry, step in zip(analysis.timeline.entries, analysis.steps_of, strict=True)
            if entry.command.engine is engine
        ]
        assert all(colors[one] != colors[other] for one, other in pairwise(steps) if one != other)


def test_what_bounds_a_layer_is_the_engine_that_works_longer() -> None:
    steps = report_of(4).analysis.steps
    assert [(step.compute_cycles, step.dma_cycles) for step in steps] == [(30, 15), (30, 5), (30, 5), (30, 65)]
    assert [step.bound for step in steps] == ["compute", "compute", "compute", "DDR"]
