"""`tpuc report`: what the page tells, from where it knows it, and how it looks in a browser."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tpuc.api import Chip, LoadedModel
from tpuc_driver.cli import main
from tpuc_pages.quality import Limits
from tpuc_report.accuracy import Accuracy, Error
from tpuc_report.page import page_text
from tpuc_report.sources import Origin, Subject

from tests.browser import Browser, Page
from tests.families import each
from tests.tools.conftest import Keep
from tests.tools.profile.test_page import report_of

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network in int8, with everything that its compilation kept."""
    folder = tmp_path_factory.mktemp("report")
    words = ["--chip", "bm1684x", "--quantize", "int8", "--dataset", str(DIGITS / "digits_calib.npz")]
    target = ["-o", str(folder / "digits.bmodel"), "--work-dir", str(folder / "work")]
    assert main(["compile", str(DIGITS / "digits.onnx"), *words, *target]) == 0
    return folder


def text_of(page: str) -> str:
    """What a reader sees, without tags."""
    body = page.partition("<main>")[2].partition("</main>")[0]
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


@pytest.mark.chip("bm1684x")
def test_everything_is_told_of_a_file_with_its_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder / "page.html"
    file, samples = folder / "digits.bmodel", DIGITS / "digits_eval.npz"
    words = ["report", str(file), "--work-dir", str(folder / "work"), "--dataset", str(samples), "-o", str(page)]
    assert main(words) == 0
    told = text_of(page.read_text("utf-8"))
    capsys.readouterr()
    assert main(["profile", str(file), "--json"]) == 0
    timed = json.loads(capsys.readouterr().out)
    assert f"{timed['cycles']:,} cycles, 'vendor'" in told
    for name, size in timed["memory_bytes"].items():
        assert re.search(rf"\b{name}\s+{size:,}\b", told), name
    assert re.search(r"probabilities\s+[45]\d\.\d dB\s+0\.999\d{3}", told)
    assert "on 100 held-out samples: 100 of 100 predictions agree with float (100.0%, 95% interval 96.3%" in told
    assert re.search(r"tables\s+[a-z ,]+ of \d compared: outputs", told)  # a remark of the calibration table
    assert "In floats: scores_floats, scores, probabilities." in told
    kept = json.loads((folder / "work" / "digits.bmodel.json").read_text())
    assert " ".join(kept["command"]) in told
    assert re.search(rf"numpy\s+{re.escape(np.__version__)}", told)
    rows = re.findall(r'<tr tabindex="0" data-row="\d+" data-name="[^"]*">(.*?)</tr>', page.read_text("utf-8"))
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert [(one[0], one[4], one[5]) for one in cells] == [
        (layer["name"], f"{layer['compute_cycles']:,}", f"{layer['dma_cycles']:,}") for layer in timed["layers"]
    ]
    errors = {one[0]: one[3] for one in cells}
    assert errors["image_u8"] == ""  # the float network has no such tensor
    assert all(20 < float(errors[name]) < 80 for name in ("relu1", "relu2", "relu3"))
    first = page.read_bytes()
    assert main(words) == 0
    assert page.read_bytes() == first


@pytest.mark.chip("bm1684x")
def test_calibration_samples_are_left_out_or_the_headline_says_so(folder: Path, tmp_path: Path) -> None:
    """The folder that the network was calibrated on has only held-out samples left; a part of it has none."""

    def told(data: Path) -> str:
        words = ["--work-dir", str(folder / "work"), "--dataset", str(data), "-o", str(tmp_path / "page.html")]
        assert main(["report", str(folder / "digits.bmodel"), *words]) == 0
        return text_of((tmp_path / "page.html").read_text("utf-8"))

    text = told(DIGITS / "digits_calib.npz")
    assert "20 samples of digits_calib.npz (80 more were used for calibration and left out)" in text
    assert "(20 held-out samples; 95% interval 96.3% to 100.0% by the margins of 100 samples)" in text
    with np.load(DIGITS / "digits_calib.npz") as arrays:
        np.save(tmp_path / "seen.npy", next(iter(arrays.values()))[2:4])  # which are held out depends on their contents
    text = told(tmp_path / "seen.npy")
    assert "2 samples of seen.npy, all used for calibration: expect lower accuracy on other data" in text
    assert (
        "(20 held-out samples; 95% interval 96.3% to 100.0% by the margins of 100 samples)" in text
    )  # what the compilation said


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("words", [[], ["--dataset", str(DIGITS / "digits_calib.npz")]])
def test_the_page_has_the_interval_of_the_compilation(words: list[str], folder: Path, tmp_path: Path) -> None:
    """The same held-out samples say the same, whether a page measures them again or not."""
    kept = json.loads((folder / "work" / "digits.bmodel.json").read_text())["self_check"]
    (part,) = kept["outputs"]
    assert (part["expected_samples"], kept["samples"]) == (100, 20)
    low, high = kept["interval"]
    page = tmp_path / "page.html"
    assert (
        main(["report", str(folder / "digits.bmodel"), "--work-dir", str(folder / "work"), *words, "-o", str(page)])
        == 0
    )
    interval = f"95% interval {low:.1%} to {high:.1%} by the margins of 100 samples"
    assert text_of(page.read_text("utf-8")).count(interval) == 2


@pytest.mark.chip("bm1684x")
def test_without_a_folder_the_file_speaks_for_itself(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(folder / "digits.bmodel"), "-o", str(page)]) == 0
    told = text_of(page.read_text("utf-8"))
    assert "Not measured: give samples with --dataset." in told
    assert told.count("compile with --work-dir DIR, and give that folder here") == 2
    assert "tpu.Softmax" in told


@pytest.mark.chip("bm1684x")
def test_without_samples_the_compilation_tells_its_accuracy(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["--work-dir", str(folder / "work"), "-o", str(page)]
    assert main(["report", str(folder / "digits.bmodel"), *words]) == 0
    told = text_of(page.read_text("utf-8"))
    assert "Self-check of the compilation:" in told
    assert "on 20 held-out samples: 20 of 20 predictions agree with float (100.0%, 95% interval 96.3% to" in told


@each(
    ("words", "sentence"),
    [
        (
            ["--dataset", "DATA"],
            "--dataset DATA needs the network that the file was compiled from; compile with --work-dir DIR",
        ),
        (
            ["--work-dir", "OTHER"],
            (
                "OTHER has no digits.bmodel.json: the folder belongs to another file than FILE; give the folder of "
                "this file."
            ),
        ),
        (
            ["--work-dir", "BROKEN"],
            "BROKEN/digits.bmodel.json is not a compilation report (KeyError: 'network'); compile",
        ),
        (["--profile", "fast"], "chip 'bm1684x' has no timing profile 'fast'. Its profiles: vendor."),
    ],
)
@pytest.mark.chip("bm1684x")
def test_what_does_not_belong_together_is_refused(
    words: list[str], sentence: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {
        "DATA": DIGITS / "digits_eval.npz",
        "OTHER": tmp_path / "other",
        "BROKEN": tmp_path / "broken",
        "FILE": folder / "digits.bmodel",
    }
    for name in ("OTHER", "BROKEN"):
        places[name].mkdir()
    (places["BROKEN"] / "digits.bmodel.json").write_text("{}")
    given = [str(places.get(word, word)) for word in words]
    assert main(["report", str(places["FILE"]), *given, "-o", str(tmp_path / "page.html")]) != 0
    for name, path in places.items():
        sentence = sentence.replace(name, str(path))
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "page.html").exists()


def test_errors_add_up_over_samples() -> None:
    error = Error()
    error.add(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    error.add(np.array([0.0, 10.0]), np.array([1.0, 10.0]))
    assert (error.signal, error.noise, error.largest) == (9 + 16 + 1 + 100, 0.25 + 1, 1.0)
    assert error.sqnr_db == pytest.approx(10 * math.log10(126 / 1.25), rel=1e-12)  # logarithms in floats
    assert error.cosine == pytest.approx(10 / math.sqrt(101), rel=1e-12)
    error.add(np.array([np.nan]), np.array([1.0]))
    assert error.sqnr_db == -math.inf


def test_colors_compare_layers_with_the_others_of_the_network() -> None:
    limits = Limits.of([*range(1, 21), None])
    found = [limits.quality(one) for one in (None, math.inf, 7.0, 6.9, 3.0, 2.9, -math.inf)]
    assert found == ["none", "good", "good", "fair", "fair", "poor", "poor"]
    assert "worst 10% of layers, below 3.0 dB" in limits.legend()
    assert [Limits.of([70.0, 90.0, math.inf]).quality(one) for one in (50.0, 49.0)] == ["good", "poor"]
    assert {Limits.of([20.0] * 9).quality(20.0), Limits.of([]).quality(50.0)} == {"good"}


class Plain(LoadedModel):
    """What a page asks of a file."""

    def __init__(self) -> None:
        self.inputs = self.outputs = ()

    @property
    def memory(self) -> dict[str, int]:
        return {"weights": 3000, "activations": 1000, "file": 5000}

    def run(self, *_: Any, **__: Any) -> Any: ...
    def read(self, *_: Any) -> Any: ...
    def timeline(self, profile: str) -> Any: ...
    def disassemble(self) -> str:
        return ""


def subject(layers: int) -> Subject:
    timed = replace(report_of(layers), file="<b>net</b>.bin")
    names = [timed.step_name(step) for step in timed.analysis.steps]
    errors = {name: Error(1.0, 10 ** -(1 + 4 * number / layers)) for number, name in enumerate(names)}
    accuracy = Accuracy("data", 3, 0, None, errors, {names[-1]: errors[names[-1]]}, None)
    chip = cast(Chip, SimpleNamespace(description=SimpleNamespace(name="chip")))
    origin = Origin({"command": ["tpuc", "compile", "a b.onnx"], "versions": {"tpuc": "1"}, "mode": "int8"})
    return Subject("<b>net</b>.bin", chip, Plain(), timed, replace(origin, plan=plan_of(layers)), accuracy)


def plan_of(layers: int) -> dict[str, Any]:
    """A chain of values, two live at a time, each in one of three places; and weights that stay."""
    buffers = [
        {"name": f"<value> {at}", "pool": "workspace", "offset": at % 3 * 100, "size_bytes": 100 - at % 2 * 50}
        | {"first": at, "last": at + 1, "reason": "above it"}
        for at in range(layers)
    ]
    weights = {
        "name": "w",
        "pool": "parameters",
        "offset": 0,
        "size_bytes": 9,
        "first": 0,
        "last": layers,
        "reason": "",
    }
    pools = [{"name": "workspace", "peak_bytes": 300}, {"name": "parameters", "peak_bytes": 9}]
    return {"pools": pools, "buffers": [*buffers, weights]}


def rows_shown(page: Page) -> int:
    return page.value("[...document.querySelectorAll('#layers tbody tr')].filter(one => !one.hidden).length")


@pytest.mark.parametrize("layers", [300, 2000])
def test_bars_lead_to_rows(layers: int, chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_text(subject(layers)), "utf-8")
    with chrome.open(path.as_uri(), height=1000) as page:
        keep(page, f"report-{layers}")
        assert page.value("document.querySelector('h1').textContent") == "<b>net</b>.bin"
        assert page.value("document.querySelector('pre').textContent") == "tpuc compile 'a b.onnx'"
        assert page.value("document.querySelectorAll('.strip:first-of-type rect').length") >= layers
        assert page.value("document.querySelectorAll('.arena').length") == 1  # weights come and go nowhere
        assert page.value("document.querySelectorAll('.arena div').length") == min(layers, 600)
        assert page.value("document.querySelector('.arena-keys').textContent.includes('<value> ')")
        inside = """[...document.querySelectorAll('.arena div')].every(one => {
          const box = one.getBoundingClientRect(), all = one.parentElement.getBoundingClientRect();
          return box.height > 20 && box.left > all.left - 1 && box.right < all.right + 2
            && box.top > all.top - 1 && box.bottom < all.bottom + 1 && one.style.background;
        })"""
        assert page.value(inside)
        page.click(".strip rect[data-row='150']")
        assert page.value("document.querySelector('#layers tr.chosen').cells[0].textContent") == "block15.conv150"
        keep(page, f"report-{layers}-chosen")
        page.press("/")
        page.type("conv77")
        assert rows_shown(page) == (1 if layers == 300 else 11)
        page.press("Escape")
        assert rows_shown(page) == layers
        page.click("#layers th:nth-child(4) button")
        assert page.value("document.querySelector('#layers tbody tr').cells[3].textContent") == "10.0"
        page.click("#layers th:nth-child(4) button")
        assert float(page.value("document.querySelector('#layers tbody tr').cells[3].textContent")) > 49
        page.prefer(dark=True)
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"


@pytest.mark.chip("bm1684x")
def test_a_network_of_the_zoo(folder: Path, chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    page_file = tmp_path / "page.html"
    words = ["--work-dir", str(folder / "work"), "--dataset", str(DIGITS / "digits_eval.npz"), "-o", str(page_file)]
    assert main(["report", str(folder / "digits.bmodel"), *words]) == 0
    with chrome.open(page_file.as_uri(), height=1500) as page:
        keep(page, "report-digits")
        page.click("a[href='#all-layers']")
        assert page.value("scrollY") > 0
    with chrome.open(page_file.as_uri(), height=1500, dark=True) as page:
        keep(page, "report-digits-dark")
