"""Tuning: the candidate with the least distance of the op's result; of several branches the largest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Module
from tpuc_driver.api.host import PortableModule, inputs_of, open_samples
from tpuc_ops import top
from tpuc_quantize.calibration.observation import ObserveJob, Tuning
from tpuc_quantize.calibration.per_op_search import Candidates, Distances, Tuner, candidates_of, choose, total
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.options.tuning import GRID
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import TensorThreshold

from tests.families import each
from tests.passes.graphs import CONTEXT, Network


def tuned(module: Module, folder: Path, x: np.ndarray, entries: dict[str, TensorThreshold]) -> dict[str, float]:
    np.save(folder / "x.npy", x)
    tuner, distances = observed(module, folder / "x.npy", entries)
    return {name: entry.threshold for name, entry in choose(tuner, distances, entries).items()}


def observed(module: Module, file: Path, entries: dict[str, TensorThreshold]) -> tuple[Tuner, Distances]:
    samples, candidates = open_samples(inputs_of(module), file), candidates_of(entries, 10)
    every = tuple(range(len(samples)))
    tuning = Tuning(every, frozenset(every), Measure(()), entries, candidates, {}, {})
    run = ObserveJob(PortableModule(module, CONTEXT.registry), samples, frozenset(), tuning).prepare()
    distances = total(one.distances for one in run(range(len(samples))))
    return Tuner(FakeNetwork(module), entries, candidates), distances


def test_ten_candidates_lie_evenly_between_threshold_and_absmax() -> None:
    entries = {"a": TensorThreshold(1.0, -10.0, 4.0), "b": TensorThreshold(9.95, 0.0, 10.0)}
    assert candidates_of(entries, 10) == {"a": Candidates(tuple(float(n) for n in range(1, 11)), signed=True)}


def test_of_two_branches_the_larger_threshold_wins(tmp_path: Path) -> None:
    net = Network(1, 1, 1, 1001)
    shared = net.op(top.MulConst(const_val=10.0), net.input)
    saturating = net.op(top.Sigmoid(), shared)  # flat above 5: clipping costs nothing, fine steps help
    linear = net.op(top.MulConst(const_val=3.0), shared)  # clipping costs all there is
    x = np.linspace(-1, 1, 1001, dtype=np.float32).reshape(1, 1, 1, 1001)
    entries = {
        "v0": TensorThreshold(1.0, -1.0, 1.0),
        "v1": TensorThreshold(4.0, -10.0, 10.0),
        "v2": TensorThreshold(1.0, 0.0, 1.0),
        "v3": TensorThreshold(30.0, -30.0, 30.0),
    }
    alone = Network(1, 1, 1, 1001)
    only = alone.op(top.Sigmoid(), alone.op(top.MulConst(const_val=10.0), alone.input))
    first = {name: entries[name] for name in ("v0", "v1", "v2")}
    assert tuned(alone.finish(only), tmp_path, x, first)["v1"] < 9.0
    assert tuned(net.finish(saturating, linear), tmp_path, x, entries)["v1"] == pytest.approx(10.0, abs=0.7)


def test_rows_tell_enough_of_many_elements(tmp_path: Path) -> None:
    row = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    entries = {"v0": TensorThreshold(0.5, -3.0, 3.0), "v1": TensorThreshold(9.0, -9.0, 9.0)}
    distances: list[np.ndarray] = []
    for rows in (1024, 4096):  # of the second, every fourth
        net = Network(1, 1, rows, 64)
        module = net.finish(net.op(top.Add(), net.input, net.input))
        np.save(tmp_path / "x.npy", np.broadcast_to(row, (1, 1, rows, 64)))
        found = observed(module, tmp_path / "x.npy", entries)[1]
        distances.append(next(one for (index, position), one in found.items() if index >= 0 and position == 1))
    np.testing.assert_allclose(distances[0], distances[1], rtol=1e-4)  # sums of 65536 floats


@each("op", [top.Conv(kernel_shape=(3, 3), group=64, pads=(1,) * 4), top.MaxPool(kernel_shape=(2, 2))])
def test_a_part_of_many_channels_and_rows_chooses_as_all_of_them(
    op: top.Conv | top.MaxPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Network(1, 64, 48, 48)
    filters = [net.weight(64, 1, 3, 3), net.none] if isinstance(op, top.Conv) else []
    module = net.finish(net.op(op, net.input, *filters))
    np.save(tmp_path / "x.npy", np.random.default_rng(6).standard_normal((1, 64, 48, 48)).astype(np.float32))
    entries = {"v0": TensorThreshold(0.5, -4.5, 4.5)}
    part = observed(module, tmp_path / "x.npy", entries)[1][1, 0]
    monkeypatch.setattr("tpuc_quantize.calibration.per_op_search.GRID", replace(GRID, many_elements=1 << 30))
    whole = observed(module, tmp_path / "x.npy", entries)[1][1, 0]
    assert part.sum() < whole.sum() / 8
    np.testing.assert_allclose(part / part.sum(), whole / whole.sum(), atol=0.01)


def test_rows_tell_enough_of_a_long_concatenation(tmp_path: Path) -> None:
    row = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    entries = {"v0": TensorThreshold(0.5, -3.0, 3.0), "v1": TensorThreshold(9.0, -9.0, 9.0)}
    distances: list[np.ndarray] = []
    for rows in (512, 2048):  # of the second, every sixteenth
        net = Network(1, 1, rows, 64)
        module = net.finish(net.op(top.Concat(axis=1), *[net.input] * 4))
        np.save(tmp_path / "x.npy", np.broadcast_to(row, (1, 1, rows, 64)))
        found = observed(module, tmp_path / "x.npy", entries)[1]
        distances.append(next(one for (index, position), one in found.items() if index >= 0 and position == 1))
    np.testing.assert_allclose(distances[0], distances[1], rtol=1e-4)


def test_what_a_relu_drops_does_not_count(tmp_path: Path) -> None:
    net = Network(1, 1, 1, 1001)
    result = net.op(top.Relu(), net.op(top.MulConst(const_val=1.0), net.input))
    x = np.concatenate([np.full(1, -8.0), np.linspace(0, 1, 1000)]).astype(np.float32).reshape(1, 1, 1, 1001)
    entries = {
        "v0": TensorThreshold(8.0, -8.0, 1.0),
        "v1": TensorThreshold(1.0, -8.0, 1.0),
        "v2": TensorThreshold(1.0, 0.0, 1.0),
    }
    assert tuned(net.finish(result), tmp_path, x, entries)["v1"] == 1.0


def test_no_threshold_is_below_its_floor(tmp_path: Path) -> None:
    net = Network(1, 1, 1, 1001)
    module = net.finish(net.op(top.Sigmoid(), net.op(top.MulConst(const_val=10.0), net.input)))
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 1001, dtype=np.float32).reshape(1, 1, 1, 1001))
    entries = {
        "v0": TensorThreshold(1.0, -1.0, 1.0),
        "v1": TensorThreshold(4.0, -10.0, 10.0),
        "v2": TensorThreshold(1.0, 0.0, 1.0),
    }
    tuner, distances = observed(module, tmp_path / "x.npy", entries)
    assert choose(tuner, distances, entries)["v1"].threshold < 9.0  # the sigmoid is flat there
    floors = {**entries, "v1": TensorThreshold(9.2, -10.0, 10.0)}
    assert choose(tuner, distances, entries, floors)["v1"].threshold == pytest.approx(9.3333, abs=1e-3)
