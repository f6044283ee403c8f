"""Calibration on several data sets, some of which count more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.data import SampleSet
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.tables.table import CalibrationTable, read_table

from tests.chips.command_line import tpuc
from tests.passes.graphs import Network

PLAIN = ("--method", "mse", "--tune-num", "0", "--bias-num", "0")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    net = Network(1, 3, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(8, 3, 3, 3), net.weight(8))
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 8, 1, 1), net.none))
    path = tmp_path / "net.mlir"
    Session().save(module, path)
    random = np.random.default_rng(1)
    for name, count, size in (("everyday", 12, 1.0), ("faces", 4, 5.0)):
        (tmp_path / name).mkdir()
        for index in range(count):
            np.save(tmp_path / name / f"{index}.npy", random.uniform(-size, size, (1, 3, 8, 8)).astype(np.float32))
    return path


def calibrated(network: Path, *arguments: str) -> CalibrationTable:
    table = network.with_name("table")
    done = tpuc("calibrate", network, *arguments, "-o", table, cwd=network.parent)
    assert done.returncode == 0, done.stderr
    assert "same as an earlier sample" not in done.stderr
    return read_table(table)


def test_ranges_are_those_of_all(network: Path) -> None:
    table = calibrated(network, "--dataset", "everyday", "--dataset", "faces", *PLAIN)
    assert table.entries["v0"].maximum > 4.9
    assert "16" in " ".join(table.remarks).split(), table.remarks


def test_a_weight_is_as_so_many_mentions(network: Path) -> None:
    faces = [f"faces/{index}.npy" for index in range(4)]
    listed = network.with_name("list.txt")
    listed.write_text("\n".join([*(f"everyday/{index}.npy" for index in range(12)), *faces * 3]))
    wanted = calibrated(network, "--data-list", "list.txt", *PLAIN)
    got = calibrated(network, "--dataset", "everyday/", "--dataset", "faces/=3", *PLAIN)
    assert got.entries == wanted.entries
    assert got.entries != calibrated(network, "--dataset", "everyday/", "--dataset", "faces/", *PLAIN).entries


def test_sessions_take_several_too(network: Path) -> None:
    folder = network.parent
    session = Session()
    options = {"tune_num": 0, "bias_num": 0}
    both = [SampleSet(folder / "everyday"), SampleSet(folder / "faces", 3)]
    table = session.calibrate(session.load(network), dataset=both, method="mse", options=options)
    table.write(folder / "own")
    wanted = calibrated(network, "--dataset", "everyday", "--dataset", "faces=3", *PLAIN)
    assert read_table(folder / "own").entries == wanted.entries


def test_the_settings_file_may_name_several(network: Path) -> None:
    network.with_name("tpuc.toml").write_text('[calibrate]\ndataset = ["everyday", "faces=3"]\n')
    wanted = calibrated(network, "--dataset", "everyday", "--dataset", "faces=3", *PLAIN)
    assert calibrated(network, *PLAIN).entries == wanted.entries
    network.with_name("tpuc.toml").write_text('[calibrate]\ndataset = "faces"\n')
    assert calibrated(network, *PLAIN).entries == calibrated(network, "--dataset", "faces", *PLAIN).entries


def test_a_weight_of_nothing_is_refused(network: Path) -> None:
    done = tpuc("calibrate", network, "--dataset", "faces=0", "-o", network.with_name("table"), cwd=network.parent)
    assert (done.returncode, done.stderr) == (
        2,
        "tpuc: data set 'faces' has weight 0; give a whole number from 1, or leave it out.\n",
    )
