"""Damage that long runs of `benchmarks/mutations.py` found to be more than one sentence, each made again by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import IllegalCommand, Unsupported
from tpuc_cv18.isa.geometry import WEIGHTS
from tpuc_cv18.simulator import Simulator
from tpuc_cv18.timing_dma import MOST_ROWS, Side
from tpuc_cv183x.chip import CV183X
from tpuc_driver.cli import main

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(DIGITS), "--chip=cv183x", "--quantize=bf16", "-o", "n.cvimodel"]) == 0
    capsys.readouterr()
    return tmp_path / "n.cvimodel"


def sentence(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The only line of a refusal."""
    assert main(list(words)) == 1 or words[0] == "compile"
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.chip("cv183x")
def test_an_engine_that_no_chip_has(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = compiled.read_bytes()
    assert data.count(b'"compute"') > 0
    compiled.write_bytes(data.replace(b'"compute"', b'"kompute"'))
    assert sentence(capsys, "profile", "n.cvimodel", "--html", "o.html") == (
        "tpuc: n.cvimodel: its metadata is damaged: it names an engine 'kompute', which no chip has; compile the "
        "network again"
    )


@pytest.mark.chip("bm1684x")
def test_a_pipeline_that_lowers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, "digits.onnx")
    Path("tpuc.toml").write_text("[pipelines]\nlower = []\n")
    assert main(["compile", "digits.onnx", "--chip=bm1684x", "--quantize=f16"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "tpuc: digits was not lowered to a chip's ops: no pass of the pipeline 'lower' does so; correct [pipelines] in "
        "tpuc.toml."
    )
    assert not list(tmp_path.glob("*.bmodel"))


def test_an_input_that_no_op_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["transform", "--model-name=digits", f"--model-def={DIGITS}", "--mlir=n.mlir"]
    assert main(words) == 0
    text = Path("n.mlir").read_text()
    assert text.count('"top.Input"') == 1
    Path("n.mlir").write_text(text.replace('"top.Input"', '"main"'))
    np.savez("in.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    capsys.readouterr()
    pair = ["--f32-mlir=n.mlir", "--quant-mlir=n.mlir"]
    assert sentence(capsys, "visual", *pair, "--input=in.npz", "-o", "o.html") == (
        "tpuc: digits: 0 of its 1 inputs are taken by top.Input; transform the network again."
    )


@pytest.mark.chip("cv183x")
def test_a_transfer_beyond_any_network() -> None:
    side = Side(0, (MOST_ROWS // 64, 64, 2, 1), (4096, 64, 8), 1)
    with pytest.raises(IllegalCommand, match="a transfer of 67,108,864 rows of 1 bytes is more than any network"):
        side.runs()


@pytest.mark.chip("cv183x")
def test_memory_is_taken_by_the_first_run(compiled: Path) -> None:
    """A file that states gigabytes can be looked at."""
    simulator = Simulator.from_bytes(compiled.read_bytes(), CV183X)
    assert [base for base, memory in enumerate(simulator.machine.gmem) if memory.size] == [WEIGHTS]


@pytest.mark.chip("cv183x")
def test_memory_that_is_not_there(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = Simulator.from_bytes(compiled.read_bytes(), CV183X)
    (name,) = (tensor.name for tensor in simulator.inputs)

    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "zeros", none_left)
    with pytest.raises(
        Unsupported, match=r"the program states [\d,]+ bytes of one memory, more than this machine has left"
    ):
        simulator.run({name: np.ones((1, 1, 8, 8), np.float32)})
