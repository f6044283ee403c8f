"""`calibrate --explain` prints which places decided a threshold, and how candidate tables were compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.calibration.race import RACE, UNSEEN_RACE, UNTUNED_RACE
from tpuc_quantize.tables.history import Origin, Stage
from tpuc_quantize.tables.table import CalibrationTable

from tests.chips.command_line import tpuc
from tests.passes.graphs import Network

Array = NDArray[Any]


def images() -> Array:
    x = np.random.default_rng(5).uniform(-1, 1, (12, 1, 1, 24, 24)).astype(np.float32)
    x[:, 0, 0, 11, 11] = -40  # one value in 576, which the relu hides
    return x


def network() -> Module:
    net = Network(1, 1, 24, 24)
    shown = net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), net.input, net.weight(1, 1, 1, 1, low=0.5), net.none)
    return net.finish(net.op(top.Conv(kernel_shape=(3, 3)), shown, net.weight(4, 1, 3, 3), net.weight(4)))


def calibrated(folder: Path, **options: Any) -> CalibrationTable:
    np.savez(folder / "x.npz", v0=images())
    table: CalibrationTable = Session().calibrate(network(), dataset=folder / "x.npz", options=options)
    return table


def test_the_history_begins_with_the_samples_and_ends_with_the_table(tmp_path: Path) -> None:
    table = calibrated(tmp_path)
    for name, entry in table.entries.items():
        changes = table.origin.history(name)
        first = changes[0]
        assert (first.place, first.before) == ("largest magnitude of 12 samples", None)
        assert first.after == pytest.approx(max(-entry.minimum, entry.maximum))
        assert [one.before for one in changes[1:]] == [one.after for one in changes[:-1]]
        last = [one for one in changes if "propagate-calibration" not in one.place][-1]
        assert last.after == entry.threshold
    places = [one.place for one in table.origin.history("v0")]
    assert places[:2] == ["largest magnitude of 12 samples", "network inputs keep their largest magnitude"]
    assert places[2:] == ["input clipped halfway to most values", "input clipped where most values end"]
    (output,) = (value.name for value in network().main.outputs)
    assert table.origin.history(output)[-1].place == "outputs 1.05 times as large"


def test_the_race_names_every_candidate_and_the_one_that_was_taken(tmp_path: Path) -> None:
    table = calibrated(tmp_path)
    rounds = {one.name: one for one in table.origin.rounds}
    assert {"tables", "inputs", "biases"} <= rounds.keys()
    assert {("range-estimators", "percentile"), ("output-error", "thresholds by outputs")} <= {
        (one.proposer, one.name) for one in rounds["tables"].entrants
    }
    assert {one.runs for one in rounds["tables"].entrants} <= {6, 12}  # half of the samples where that is hopeless
    for one in rounds.values():
        assert [entrant.selected for entrant in one.entrants].count(True) == 1
    said = next(one.name for one in rounds["tables"].entrants if one.selected)
    assert any(remark.startswith(f"tables: {said}, of ") for remark in table.remarks)


def test_the_race_names_every_proposer_of_ours() -> None:
    named = {name for stage in (*RACE, *UNSEEN_RACE, *UNTUNED_RACE) for name in stage.proposers}
    assert named == set(Registry().names("tpuc.proposers"))


def test_a_method_alone_compares_nothing(tmp_path: Path) -> None:
    table = calibrated(tmp_path, tune_num=0, bias_num=0)
    assert table.explain() == "no candidates were compared: thresholds are those of the method"
    assert table.origin.history("v0")[0].place == "largest magnitude of 12 samples"


def test_a_history_as_text() -> None:
    stages = (Stage("seen", {"a": 4.0, "b": 1.0}), Stage("method", {"a": 3.0}), Stage("race", {"a": 3.0}))
    assert Origin(stages).explain("a").splitlines() == [
        "a: threshold 3, decided by: method",
        "  seen                 -> 4",
        "  method             4 -> 3",
        "  race               3 -> kept",
    ]


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(CalibrationError, match=r"^no value 'conv2' has a threshold; did you mean 'conv1'\?$"):
        Origin((Stage("seen", {"conv1": 1.0}),)).explain("conv2")
    with pytest.raises(CalibrationError, match=r"^no value 'x' has a threshold; names are those of the calibration"):
        Origin((Stage("seen", {"conv1": 1.0}),)).explain("x")


def test_the_command_prints_either(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    Session().save(network(), path)
    np.savez(tmp_path / "x.npz", v0=images())
    command = ("calibrate", path, "--dataset", tmp_path / "x.npz", "-o", tmp_path / "table")
    done = tpuc(*command, "--explain=v0")
    assert done.returncode == 0, done.stderr
    assert "v0: threshold 0.99" in done.stdout
    assert "input clipped where most values end" in done.stdout
    done = tpuc(*command, "--explain")
    assert "tables: " in done.stdout
    assert re.search(r"^  \* \S+ +\S.* 12 runs  outputs \d", done.stdout, re.MULTILINE)
    assert "tables: selects the best score; budget: 12 network evaluations for each" in done.stdout
    done = tpuc(*command, "--explain=v00")
    assert (done.returncode, "no value 'v00' has a threshold; did you mean 'v0'?" in done.stderr) == (1, True)
