"""A predicted time names the functions of the processor, with an estimate of what they add."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tpuc.api import Registry
from tpuc_driver.api.host import HostTime, host_times, on_processor, shown_time
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc
from tests.families import each
from tests.tools.eval.test_fused_boxes import write_heads

FUNCTIONS = {"cv181x": "detectionoutput", "bm1684x": "ssd_detection_output"}
NAMED = " (estimated) for {} on the processor"


@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@each("chip", FUNCTIONS)
def test_of_boxes_that_the_processor_chooses(chip: str, tmp_path: Path) -> None:
    network, file = write_heads("yolox", tmp_path), tmp_path / ("net.bmodel" if chip == "bm1684x" else "net.cvimodel")
    said = ("--chip", chip, "--post", "yolox", "-o", file)
    done = tpuc("compile", network, *said)
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("predicted: ")]
    named = NAMED.format(FUNCTIONS[chip])
    assert " ms + about " in line, done.stderr
    assert f"{named} (timing profile '" in line
    session = Session()
    report = session.profile(file)
    (function,) = report.to_json()["host_functions"]
    assert function["function"] == FUNCTIONS[chip]
    assert f"{named} on {chip} (" in report.text()
    loaded_chip, loaded = session.open(file)
    # 84 boxes with some classes: more than reading every value once, less than a million operations
    values = sum(info.size_bytes for call in loaded.host_calls for info in (*call.inputs, *call.outputs))
    hertz = loaded_chip.description.processor_hz
    assert values / hertz * 1000 < function["milliseconds"] < 2e6 / hertz * 1000
    profiled = tpuc("profile", file).stdout
    assert f"{named} on {chip} (" in profiled
    assert f" B written, about {shown_time(function['milliseconds'])})" in profiled
    checked = tpuc("check", file)
    assert (
        f", {FUNCTIONS[chip]} on the processor in about {shown_time(function['milliseconds'])} (est" in checked.stdout
    )
    assert json.loads(tpuc("check", file, "--json").stdout)["host_functions"] == [function]
    plain = tpuc("compile", network, "--chip", chip, "-o", file)
    assert " on the processor" not in plain.stdout
    assert host_times(Registry(), *session.open(file)) == ()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (0.00213, "0.0021 ms"), (0.27, "0.27 ms"), (1.25, "1.2 ms"), (137, "137 ms")],
)
def test_two_digits_of_an_estimate_are_shown(milliseconds: float, text: str) -> None:
    assert shown_time(milliseconds) == text


def test_functions_are_counted() -> None:
    assert on_processor(()) == ""
    times = [HostTime("topk", 0.5), HostTime("argsort", 1), HostTime("topk", 0.5)]
    assert on_processor(times) == " + about 2.0 ms (estimated) for 2 topk, argsort on the processor"
