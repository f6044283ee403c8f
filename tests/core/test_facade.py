"""The compiler as a Python module: three objects from file to file, sentences for what does not fit, late imports."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc_driver.facade.profile import COLORS, Profile, Span
from tpuc_driver.session import ProfileReport, Session

from tests.families import each

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CHIP = "bm1684x"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def network() -> tpuc.Network:
    return tpuc.load(str(DIGITS / "digits.onnx"))


@pytest.fixture(scope="module")
def evaluation() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    data = np.load(DIGITS / "digits_eval.npz")
    return data["x"], data["y"]


@pytest.fixture(scope="module")
def quantized(network: tpuc.Network) -> tpuc.QuantizedNetwork:
    samples = np.load(DIGITS / "digits_calib.npz")["x"]
    return network.quantize({"image": samples}, tune_num=2, bias_num=2)


@pytest.fixture(scope="module")
def compiled(quantized: tpuc.QuantizedNetwork) -> tpuc.CompiledNetwork:
    return quantized.compile("BM1684X")


def test_importing_the_package_imports_nothing_else() -> None:
    script = (
        "import sys; before = set(sys.modules); import tpuc; print(sorted(set(sys.modules) - before)); tpuc.load; "
        "print('numpy' in sys.modules, 'load' in dir(tpuc), hasattr(tpuc, 'nothing'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    new, rest = done.stdout.splitlines()
    assert set(eval(new)) <= {"tpuc", "__future__"}  # noqa: S307  # a list of names that this test printed
    assert rest == "True True False"


def test_the_version_is_that_of_the_package() -> None:
    import importlib.metadata

    assert tpuc.__version__ == importlib.metadata.version("tpuc")


def test_the_file_is_the_one_that_a_session_compiles(
    quantized: tpuc.QuantizedNetwork, compiled: tpuc.CompiledNetwork, tmp_path: Path
) -> None:
    session = Session(chip=CHIP, quantize="int8")
    table = quantized.calibrated.table
    session.deploy(session.transform(DIGITS / "digits.onnx"), tmp_path / "one.bmodel", calibration_table=table)
    assert compiled.save(tmp_path / "two.bmodel").read_bytes() == (tmp_path / "one.bmodel").read_bytes()
    assert compiled.report is not None
    assert compiled.report.self_check is not None
    assert compiled.report.self_check.tuned is False


def test_arrays_names_and_files_are_the_same_samples(
    compiled: tpuc.CompiledNetwork, network: tpuc.Network, evaluation: Any, tmp_path: Path
) -> None:
    images, labels = evaluation[0][:8], evaluation[1][:8]
    np.save(tmp_path / "x.npy", images)
    for one in (network, compiled):
        found = [one.run(given)["probabilities"] for given in (images, {"image": images}, str(tmp_path / "x.npy"))]
        assert found[0].shape == (8, 1, 10)
        assert [np.array_equal(found[0], other) for other in found] == [True, True, True]
        assert (found[0].reshape(8, 10).argmax(1) == labels).all()
        assert one.run(images[0])["probabilities"].shape == (1, 10)


def test_a_file_is_opened_again(compiled: tpuc.CompiledNetwork, evaluation: Any, tmp_path: Path) -> None:
    again = tpuc.load_compiled(compiled.save(tmp_path / "digits.bmodel"))
    assert (again.chip, again.memory) == (CHIP, compiled.memory)
    one = evaluation[0][0]
    assert np.array_equal(again.run(one)["probabilities"], compiled.run(one)["probabilities"])
    assert again.profile().cycles == compiled.profile().cycles
    assert "compiled" in repr(again).lower()
    copied = again.save(tmp_path / "copy.bmodel")
    assert copied.read_bytes() == (tmp_path / "digits.bmodel").read_bytes()
    bundle = again.bundle(tmp_path / "deploy")
    assert (bundle / "digits.bmodel").read_bytes() == copied.read_bytes()
    assert json.loads((bundle / "network.json").read_text("utf-8"))["chip"] == CHIP
    with pytest.raises(tpuc.TpucError, match=r"the folder is not empty; choose a new one for the bundle"):
        again.bundle(bundle)


def test_a_module_and_a_table_are_kept_in_files(
    network: tpuc.Network, quantized: tpuc.QuantizedNetwork, tmp_path: Path
) -> None:
    path = network.save(tmp_path / "digits.mlir")
    assert tpuc.load(path).outputs == network.outputs == {"probabilities": (1, 10)}
    table = quantized.save_table(tmp_path / "table")
    assert network.quantize(table=table).save_table(tmp_path / "again").read_text() == table.read_text()


REFUSED: list[tuple[str, Callable[[tpuc.Network], object]]] = [
    (
        "no input named 'imge'. Did you mean 'image'? The network takes 'image' 1x1x8x8.",
        lambda network: network.run({"imge": np.zeros((8, 8))}),
    ),
    ("no array for 'image' 1x1x8x8; give one for each input.", lambda network: network.run({})),
    ("array 'image': shape (3, 7) does not fit input 'image'", lambda network: network.run(np.zeros((3, 7)))),
    (
        "int8 needs calibrated ranges; quantize the network first: network.quantize(samples).compile('bm1684x').",
        lambda network: network.compile(CHIP, mode="INT8"),
    ),
    ("chip 'bm1684x' has no mode 'int9'. Its modes: f32", lambda network: network.compile(CHIP, mode="int9")),
    ("have no runtime version", lambda network: network.compile(CHIP, runtime_version="1.0")),
    ("the runtime of bm1684x has no function for this op", lambda network: network.compile(CHIP, cpu_ops=("Softmax",))),
    ("no chip named 'bm1684'. Did you mean 'bm1684x'?", lambda network: network.compile("bm1684")),
    ("no setting named 'plnner'. Did you mean 'planner'?", lambda network: network.compile(CHIP, plnner="greedy")),  # pyright: ignore[reportCallIssue]
    ("mode f16 needs no calibration; call network.compile(..., mode='f16').", lambda n: n.quantize("x", mode="F16")),
    ("no calibration data; give samples, or a calibration table with table=FILE.", lambda n: n.quantize()),
    ("nowhere: no such file or folder of samples.", lambda network: network.quantize("nowhere")),
    ("nowhere.onnx: no such file.", lambda _: tpuc.load("nowhere.onnx")),
    ("nowhere.bin: no such file or folder.", lambda _: tpuc.load_compiled("nowhere.bin")),
    (
        "no preprocessing setting is named 'means'. Settings: channel_format, crop,",
        lambda _: tpuc.load(DIGITS / "digits.onnx", preprocess={"means": (1.0,)}),
    ),
    (
        "no preset named 'imagenet'. Did you mean 'imagenet-t",
        lambda _: tpuc.load(DIGITS / "digits.onnx", preprocess="imagenet"),
    ),
    ("no setting named 'bath'. Did you mean 'batch'?", lambda _: tpuc.load("x.onnx", bath=1)),  # pyright: ignore[reportCallIssue]
]


@each(("sentence", "attempt"), REFUSED, ids=[sentence[:40] for sentence, _ in REFUSED])
def test_what_does_not_fit_is_refused_in_a_sentence(
    sentence: str, attempt: Callable[[tpuc.Network], object], network: tpuc.Network
) -> None:
    with pytest.raises(tpuc.TpucError) as refused:
        attempt(network)
    assert sentence in refused.value.sentence()


@pytest.mark.chip("bm1684x")
def test_a_compiled_file_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "x.bmodel").write_bytes(b"")
    with pytest.raises(tpuc.TpucError, match=r"x\.bmodel is a compiled file; open it with tpuc\.load_compiled\."):
        tpuc.load(tmp_path / "x.bmodel")


def test_remarks_are_warnings_at_the_callers_line(network: tpuc.Network) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        network.quantize(np.zeros((2, 8, 8), np.float32), tune_num=0, bias_num=0, force=True)
    assert [one.category for one in seen] == [tpuc.Remark] * len(seen)
    assert {one.filename for one in seen} == {__file__}


def test_the_log_is_that_of_the_package(network: tpuc.Network, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tpuc"):
        network.compile(CHIP)
    assert {record.name for record in caplog.records} <= {"tpuc"}


def test_notebooks_show_collapsible_tables(network: tpuc.Network, compiled: tpuc.CompiledNetwork) -> None:
    page = network._repr_html_()
    assert page.count("<details>") == page.count("</details>") == 1
    rows = ET.fromstring(page).findall(".//tbody/tr")
    assert [row[1].text for row in rows][:2] == ["top.Conv", "top.Conv"]
    assert len(rows) == 8
    assert "Memory (4)" in compiled._repr_html_()
    assert compiled._repr_html_().count("<svg") == 1
    assert repr(network).startswith("Network 'digits': 8 ops, ")


def profile_of(spans: dict[str, tuple[Span, ...]], layers: tuple[str, ...], cycles: int) -> Profile:
    report = ProfileReport("<net>", "chip", "slow", cycles, 0.001, {}, {}, {})
    return Profile(report, layers, spans)


def test_the_picture_has_a_part_for_every_span() -> None:
    spans = {"compute": (Span("a<b", 0, 30), Span("b", 30, 60)), "dma": (Span("b", 75, 100),)}
    picture = ET.fromstring(profile_of(spans, ("a<b", "b"), 100).to_svg())
    parts = [one for one in picture.iter(f"{SVG}rect") if one.get("class") is None]
    told = [(one.findtext(f"{SVG}title"), float(one.attrib["x"]) - 80, float(one.attrib["width"])) for one in parts]
    assert told == [("a<b", 0, 264), ("b", 264, 264), ("b", 660, 220)]  # 880 columns for 100 cycles
    assert [one.attrib["fill"] for one in parts] == [COLORS[0], COLORS[1], COLORS[1]]
    assert [one.attrib["fill"] for one in picture.iter(f"{SVG}rect") if one.get("class") == "key"] == [*COLORS[:2]]


def test_a_picture_of_many_commands_stays_small() -> None:
    spans = tuple(Span(f"layer {number % 300}", number, number + 1) for number in range(20_000))
    picture = profile_of({"compute": spans}, tuple(f"layer {n}" for n in range(300)), 20_000).to_svg()
    assert picture.count("<rect") <= 881
    assert len(picture) < 120_000


def test_nothing_to_do_takes_no_time() -> None:
    assert profile_of({"compute": ()}, (), 0).to_svg().count("<rect") == 1


def test_layers_are_named_and_their_cycles_are_the_engines(compiled: tpuc.CompiledNetwork) -> None:
    profile = compiled.profile()
    by_layer = profile.cycles_by_layer
    assert {"relu1", "scores", "probabilities"} <= set(by_layer)
    for engine, busy in profile.report.busy.items():
        assert sum(cycles[engine] for cycles in by_layer.values()) == busy
    assert compiled.report is not None
    assert profile.cycles == compiled.report.cycles
    assert "<figure><svg" in profile._repr_html_()
