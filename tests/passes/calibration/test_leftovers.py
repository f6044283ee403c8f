"""A calibration that is refused leaves every folder as it was; one that is interrupted can go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc.ir.text import write_module
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.calibration.engine import Engine

from tests.passes.graphs import Network

GOOD = np.random.default_rng(3).uniform(1, 2, (80, 1, 3, 4, 4)).astype(np.float32)
"""Enough samples for statistics to be written before the last ones are seen."""
BAD = GOOD.copy()
BAD[-1] = -GOOD[-1]
"""The last sample has no logarithm."""


@pytest.fixture
def module() -> Module:
    net = Network(1, 3, 4, 4)
    return net.finish(net.op(top.Log(), net.input))


@pytest.fixture
def folder(tmp_path: Path, module: Module, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the network, `good.npz` and `bad.npz`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tpuc_quantize.calibration.engine.SAVE_EVERY", 8)
    write_module(tmp_path / "net.mlir", module)
    np.savez("good.npz", v0=GOOD)
    np.savez("bad.npz", v0=BAD)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_refused_calibration_leaves_no_statistics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(folder)
    assert main(("calibrate", "net.mlir", "--dataset", "bad.npz", "--workers", "1", "-o", "table")) == 1
    assert "NaN during calibration" in capsys.readouterr().err
    assert contents(folder) == before


def test_statistics_were_written_before_the_refusal(
    module: Module, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tests above and below would show nothing."""
    written: list[Path] = []
    monkeypatch.setattr(Engine, "_save", lambda engine, _: written.append(engine.statistics))
    with pytest.raises(CalibrationError):
        Session().calibrate(module, dataset=folder / "bad.npz", options={"statistics": "s.npz"})
    assert written


def test_a_refused_calibration_leaves_older_statistics_as_they_were(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("calibrate", "net.mlir", "--dataset", "good.npz", "-o", "table")) == 0
    before = contents(folder)
    assert "table.npz" in before
    resumed = ("--resume", "table.npz", "-o", "table")
    assert main(("calibrate", "net.mlir", "--dataset", "bad.npz", "--workers", "1", *resumed)) == 1
    assert "NaN during calibration" in capsys.readouterr().err
    assert contents(folder) == before


def test_samples_that_nobody_can_read_leave_no_statistics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = np.full((2, 1, 3, 4, 4), np.nan, np.float32)
    broken[1, 0, 0, 0, 0] = 0.0  # equal samples would count once
    np.savez("none.npz", v0=broken)
    before = contents(folder)
    assert main(("calibrate", "net.mlir", "--dataset", "none.npz", "-o", "table")) == 1
    assert "none of the 2 samples can be read" in capsys.readouterr().err
    assert contents(folder) == before


def test_a_table_that_cannot_be_written_leaves_no_statistics(
    module: Module, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "net.mlir").read_text().replace('loc("v1")', 'loc("v  1")')
    (folder / "net.mlir").write_text(text)
    before = contents(folder)
    assert main(("calibrate", "net.mlir", "--dataset", "good.npz", "-o", "table")) == 1
    assert "tensor name 'v  1' cannot be written to a calibration table" in capsys.readouterr().err
    assert contents(folder) == before


def test_an_interrupted_calibration_keeps_its_statistics(
    module: Module, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "search", interrupted)
    statistics = folder / "s.npz"
    with pytest.raises(KeyboardInterrupt):
        Session().calibrate(module, dataset=folder / "good.npz", options={"statistics": str(statistics)})
    assert statistics.exists()
