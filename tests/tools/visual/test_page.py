"""The page of `tpuc visual` in a browser: graph, table, bars and details lead to each other, for large networks too."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import ScalarType, Uniform
from tpuc_driver.cli import main
from tpuc_visual.graph import Layer
from tpuc_visual.page import Networks, render
from tpuc_visual.pictures import STEPS, Weight, picture
from tpuc_visual.server import Visual, make_server
from tpuc_visual.similarity import Alike

from tests.browser import Browser, Page
from tests.tools.conftest import Keep

ROOT = Path(__file__).resolve().parents[3]
F32 = ScalarType("f32")
BYTES = Uniform(ScalarType("si8"), F32, 0.5)


def network(count: int) -> Networks:
    """Blocks of ten layers with a shortcut each; the error grows towards the middle of the network."""
    layers: list[Layer] = []
    for number in range(count):
        name = f"/stage{number // 50}/block{number // 10}/conv{number}/out"
        before = [layers[-1].name] if layers else []
        if number % 10 == 9:
            before.append(layers[number - 9].name)
        layers.append(Layer(name, "top.Add" if len(before) > 1 else "top.Conv", "1x8x4x4", "f32", tuple(before), ()))
    random = np.random.default_rng(0)
    values = random.normal(size=(1, 8, 4, 4))
    pictures = [picture(values, values + random.normal(size=values.shape) / power, BYTES) for power in (2, 8, 32)]
    alike: dict[str, Alike] = {}
    for number, layer in enumerate(layers):
        ratio = 10 + 40 * abs(number - count / 2) / count
        alike[layer.name] = Alike(0.9, 0.8, ratio, (-3, 3), (-2, 2), pictures[int(ratio / 10) - 1])
    quantized = [Layer(one.name, one.op.replace("top", "tpu"), one.shape, "i8", one.operands, ()) for one in layers]
    quantized.insert(5, Layer("cast", "tpu.Cast", "1", "i8", (layers[4].name,), ()))
    weights = {layers[7].name: (Weight("filter", "8x8", "f32", -1, 1, (1, 2, 3)),)}
    return Networks("float.mlir", "quantized.mlir", layers, quantized, alike, weights)


def written(networks: Networks, folder: Path) -> str:
    path = folder / "page.html"
    path.write_text(render(networks), "utf-8")
    return path.as_uri()


def scene(page: Page) -> dict[str, float]:
    found = page.value("({...document.querySelector('#picture').dataset})")
    return {name: float(value) for name, value in found.items()}


def texts(page: Page, selector: str) -> list[str]:
    return page.value(f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)")


def count_of(page: Page, selector: str) -> int:
    return page.value(f"document.querySelectorAll({selector!r}).length")


def chosen(page: Page) -> dict[str, Any]:
    """The tensor that each part of the page has chosen."""
    names = "[...document.querySelectorAll('#layers tr.chosen')].map(one => one.querySelector('b').textContent)"
    marked = "[...document.querySelectorAll('svg.strip rect.chosen')].map(one => Number(one.dataset.row))"
    drawn = "[...document.querySelectorAll('#picture .node.chosen')].map(one => Number(one.dataset.row))"
    shown = "document.querySelector('#details').hidden ? null : document.querySelector('#name').textContent"
    return {
        "table": page.value(names),
        "bars": page.value(marked),
        "graph": page.value(drawn),
        "shown": page.value(shown),
    }


@pytest.mark.parametrize("count", [300, 2000])
def test_a_large_network_can_be_looked_through(count: int, chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    networks = network(count)
    with chrome.open(written(networks, tmp_path)) as page:
        assert count_of(page, "#layers tbody tr") == count + 1
        assert texts(page, "#network option") == ["quantized network", "float network"]
        assert texts(page, "#grouping option") == ["groups by name", "single ops"]
        groups = count_of(page, "#picture .group")
        assert 0 < groups <= count // 10 + 1
        keep(page, f"visual-{count}")
        page.press("/")
        page.type("conv137/")
        assert texts(page, "#layers tbody tr:not([hidden]) b") == ["/stage2/block13/conv137/out"]
        assert texts(page, "#count") == [f"1 of {count + 1}"]
        assert count_of(page, "#picture .hit") == 1
        page.press("Enter", "\r")
        name = "/stage2/block13/conv137/out"
        assert chosen(page) == {"table": [name], "bars": [138], "graph": [138], "shown": name}
        keep(page, f"visual-{count}-chosen")
        page.press("ArrowDown")  # nothing else is shown
        assert chosen(page)["table"] == [name]
        page.click("#search")
        page.press("Escape")
        page.press("Escape")
        assert chosen(page) == {"table": [], "bars": [], "graph": [], "shown": None}
        page.click("#worst")
        first = page.value("document.querySelector('#layers tbody tr').cells[5].textContent")
        assert first == "10.0"
        page.click("#limit")
        page.type("11")
        shown = texts(page, "#layers tbody tr:not([hidden]) td:last-child")
        assert len(shown) == sum(one.sqnr_db <= 11 for one in (networks.alike or {}).values())
        assert [float(one) for one in shown] == sorted(map(float, shown))
        page.click("#open")
        assert count_of(page, "#picture .node") < 200  # only what is in view
        page.value("document.querySelector('#grouping').value = 'single ops'")
        page.value("document.querySelector('#grouping').dispatchEvent(new Event('change'))")
        page.click("#fit")
        assert count_of(page, "#picture .node") == count + 1
        assert count_of(page, "#picture text") == 0  # too small to be read


def test_the_parts_of_the_page_lead_to_each_other(chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    with chrome.open(written(network(40), tmp_path)) as page:
        whole = scene(page)
        x, y = page.place("#picture")
        page.wheel(x, y, -1)
        assert scene(page)["scale"] == pytest.approx(whole["scale"] * 1.2, rel=1e-3)  # shown with four digits
        page.wheel(x, y, 1)
        page.drag((x, y + 200), (x + 50, y + 230))
        moved = scene(page)
        assert moved["x"] - whole["x"] == pytest.approx(50, abs=3)
        assert moved["y"] - whole["y"] == pytest.approx(30, abs=3)
        page.value("document.querySelector('#picture').focus()")
        page.press("ArrowUp")
        assert scene(page)["y"] == pytest.approx(moved["y"] + 60, abs=0.2)
        page.press("0")
        assert scene(page)["scale"] == whole["scale"]
        groups = count_of(page, "#picture .group")
        page.click("#picture .group")
        assert count_of(page, "#picture .group") < groups
        assert count_of(page, "#picture .frame") == 1
        inside = count_of(page, "#picture .node:not(.group)")
        assert inside >= 5
        page.click("#picture .node:not(.group)")
        found = chosen(page)
        assert len(found["table"]) == 1
        assert found["shown"] == found["table"][0]
        page.click("#shut")
        assert count_of(page, "#picture .frame") == 0
        page.click("svg.strip rect[data-row='8']")
        name = "/stage0/block0/conv7/out"
        assert chosen(page) == {"table": [name], "bars": [8], "graph": [8], "shown": name}
        headings = texts(page, "#parts h3")
        assert headings[0] == "float against quantized"
        assert "worst of 8 channels" in headings
        assert "weights in float" in headings
        assert count_of(page, "#channels tbody tr") == 8
        assert texts(page, ".plot text")[2:4] == ["from -64", "to 63.5"]  # what a byte of steps of 0.5 can hold
        keep(page, "visual-details")
        page.click("#layers tbody tr[data-row='5']")
        assert chosen(page)["shown"] == "cast"
        assert texts(page, "#said") == ["not in both networks, or not run"]
        page.click("#close")
        assert chosen(page)["shown"] is None


def test_head_and_colors(chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    with chrome.open(written(network(300), tmp_path), dark=True) as page:
        head = "document.querySelector('#layers th').getBoundingClientRect().y"
        before = page.value(head)
        page.value("document.querySelector('.pane').scrollTop = 2000")
        page.settle()
        assert page.value(head) == before  # it stays
        ground = "getComputedStyle(document.body).backgroundColor"
        assert page.value(ground) == "rgb(13, 17, 23)"
        keep(page, "visual-dark")
        page.click("#theme")
        assert page.value(ground) == "rgb(255, 255, 255)"


@pytest.mark.chip("bm1684x")
def test_a_network_of_the_zoo(chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    example = ROOT / "examples" / "digits"
    work, path = tmp_path / "work", tmp_path / "page.html"
    samples = str(example / "digits_calib.npz")
    compiled = ["--chip", "bm1684x", "--quantize", "int8", "--dataset", samples, "-o", str(tmp_path / "digits.bmodel")]
    assert main(["compile", str(example / "digits.onnx"), *compiled, "--work-dir", str(work)]) == 0
    modules = ["--f32-mlir", str(work / "digits.mlir"), "--quant-mlir", str(work / "digits_bm1684x_int8_sym_tpu.mlir")]
    assert main(["visual", *modules, "--input", samples, "-o", str(path)]) == 0
    with chrome.open(path.as_uri()) as page:
        page.click("#layers tbody tr[data-row='2']")
        assert chosen(page)["shown"] == "relu1"
        assert "16x1x3x3 si8" in " ".join(texts(page, "#parts td"))
        keep(page, "visual-digits")


def test_a_served_page_runs_the_networks_when_asked(chrome: Browser) -> None:
    networks = network(20)
    asked = Visual(replace(networks, alike=None), lambda: dict(networks.alike or {}))
    server = make_server(asked, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with chrome.open(f"http://127.0.0.1:{server.server_port}/") as page:
            assert count_of(page, "svg.strip rect") == 0
            page.click("#layers tbody tr[data-row='3']")
            assert texts(page, "#said") == ["not in both networks, or not run"]
            page.click("#run")
            page.wait("document.querySelector('svg.strip') && !document.querySelector('#run')")
            assert count_of(page, "svg.strip rect") == 20
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_picture_of_values_by_hand() -> None:
    wanted = np.array([[0.0, 1.0, 2.0, 4.0], [0.0, 0.0, 0.0, 0.0]]).T  # four rows of two channels
    got = np.array([[0.0, 1.5, 2.0, 3.5], [0.0, 0.0, 0.0, 0.5]]).T
    found = picture(wanted, got, BYTES)
    assert (found.low, found.high) == (0.0, 4.0)
    points = {(0, 0), (1 / 4, 1.5 / 4), (2 / 4, 2 / 4), (1, 3.5 / 4), (0, 0.5 / 4)}
    assert set(found.points) == {(round(one * STEPS), round(other * STEPS)) for one, other in points}
    assert sum(found.exact) == sum(found.quantized) == 8
    assert (found.exact[0], found.exact[12], found.exact[24], found.exact[47]) == (5, 1, 1, 1)
    assert found.limits == (-64.0, 63.5)
    # The error of the first channel is 0.5 of 21: 16.2 dB. The second one is dead, and has a third of all error.
    shown = [(one.index, round(one.share, 3), round(one.sqnr_db, 1)) for one in found.channels]
    assert shown == [(0, 0.667, 16.2), (1, 0.333, float("-inf"))]


def test_the_channel_with_most_error_comes_first() -> None:
    """Not the weakest one, of which little error makes a low ratio; channels of one value may be anything."""
    wanted = np.array([[100.0, 100.0], [0.1, 0.1], [0.0, 0.0], [5.0, 5.0]]).T
    got = np.array([[97.0, 100.0], [0.2, 0.1], [0.0, 9.0], [5.0, 4.0]]).T
    assert [one.index for one in picture(wanted, got, BYTES).channels] == [0, 3, 1, 2]


def test_values_that_are_no_numbers_are_left_out() -> None:
    found = picture(np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, np.inf]), F32)
    assert (found.low, found.high, found.points, found.limits) == (1.0, 1.0, ((0, 0),), None)
    assert sum(found.exact) == 1
    assert picture(np.array([np.nan]), np.array([1.0]), F32).points == ()
