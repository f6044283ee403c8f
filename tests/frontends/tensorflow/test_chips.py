"""Networks of TensorFlow become int8 files, which compute what their lowered modules do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.floats import run_on_floats
from tests.frontends.tensorflow.networks import make_networks

CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
ULP = 2.0**-22
"""Softmax behind the last product is computed in floats, whose sums may be in another order."""


def largest_difference(path: Path, outputs: Sequence[str], chip: str, folder: Path) -> float:
    """Between the simulated file and the evaluation of its module, over a few inputs."""
    session = Session(chip=chip, quantize="int8")
    top = session.transform(path, output_names=tuple(outputs))
    ((name, type),) = Interpreter(top).inputs.items()
    random = np.random.default_rng(5)
    samples = [random.uniform(-1, 1, type.dims).astype(np.float32) for _ in range(6)]
    folder.mkdir()
    for number, sample in enumerate(samples):
        np.savez(folder / f"{number}.npz", **{name: sample})
    built = session.build(top, session.calibrate(top, dataset=folder, method="max"))
    loaded = session.chip.load(built.data)
    largest = 0.0
    for sample in samples:
        expected = Interpreter(built.module).run({name: sample})
        found = run_on_floats(loaded, {name: sample})
        pairs = zip(expected.values(), found.values(), strict=True)
        largest = max(largest, *(float(np.abs(a.reshape(-1) - b.reshape(-1)).max()) for a, b in pairs))
    return largest


@pytest.mark.parametrize("chip", CHIPS)
def test_a_small_network(chip: str, tmp_path: Path) -> None:
    path = Path(__file__).with_name("files") / "small.pb"
    assert largest_difference(path, (), chip, tmp_path / "samples") <= ULP


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet", "resnet"])
@pytest.mark.parametrize("chip", CHIPS)
def test_classifiers(name: str, chip: str, tmp_path: Path) -> None:
    made = make_networks(tmp_path, [name])[name]
    assert largest_difference(made.frozen, made.tensors, chip, tmp_path / "samples") <= ULP
