"""A predicted time says which functions of the processor it leaves out."""

from __future__ import annotations

from pathlib import Path

from tpuc_driver.session import Session
from tpuc_driver.session.reports import untimed

from tests.chips.command_line import tpuc
from tests.families import each
from tests.tools.eval.test_fused_boxes import write_heads

FUNCTIONS = {"cv181x": "detectionoutput", "bm1684x": "ssd_detection_output"}


@each("chip", FUNCTIONS)
def test_of_boxes_that_the_processor_chooses(chip: str, tmp_path: Path) -> None:
    network, file = write_heads("yolox", tmp_path), tmp_path / ("net.bmodel" if chip == "bm1684x" else "net.cvimodel")
    said = ("--chip", chip, "--post", "yolox", "-o", file)
    done = tpuc("compile", network, *said)
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("predicted: ")]
    assert f" ms without {FUNCTIONS[chip]} on the processor (timing profile '" in line, done.stderr
    assert Session().profile(file).to_json()["untimed_host_functions"] == [FUNCTIONS[chip]]
    assert f" ms without {FUNCTIONS[chip]} on the processor on {chip} (" in Session().profile(file).text()
    plain = tpuc("compile", network, "--chip", chip, "-o", file)
    assert " on the processor" not in plain.stdout


def test_functions_are_counted() -> None:
    assert untimed(()) == ""
    assert untimed(("topk", "argsort", "topk")) == " without 2 topk, argsort on the processor"
