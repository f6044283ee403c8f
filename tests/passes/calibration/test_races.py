"""Which candidates are run, on how many samples, and which is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.registry import Registry
from tpuc_driver.api.host import open_samples
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.work import open_pool
from tpuc_ops import top
from tpuc_quantize.calibration import network_comparison, search
from tpuc_quantize.calibration import race as races
from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.engine import Engine
from tpuc_quantize.calibration.evaluator import Evaluator
from tpuc_quantize.calibration.race import Race
from tpuc_quantize.calibration.search import Settings
from tpuc_quantize.metrics.scores import Score
from tpuc_quantize.observers.collector import Counting
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.options.budgets import BUDGETS
from tpuc_quantize.proposers import bias_shifts, rounded_weights
from tpuc_quantize.ranges.estimators import Max
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import CalibrationTable

from tests.families import each
from tests.passes.graphs import CONTEXT, Network

Array = NDArray[Any]


def images(count: int, channels: int = 4, size: int = 8) -> Array:
    return np.random.default_rng(5).uniform(-1, 1, (count, 1, channels, size, size)).astype(np.float32)


def product() -> Module:
    """One convolution; its result is the output."""
    net = Network(1, 4, 8, 8)
    op = top.Conv(kernel_shape=(1, 1))
    return net.finish(net.op(op, net.input, net.weight(4, 4, 1, 1), net.weight(4)))


class TestBiases:
    """What the race is told here: the filters take 1 from each result, int8 takes 3 altogether."""

    LOST = {"v3": np.full(4, 1.0, np.float32)}
    LEFT = {"v3": np.full(4, 3.0, np.float32)}

    def taken(self, decibels: Mapping[float, float], folder: Path, monkeypatch: pytest.MonkeyPatch) -> float:
        """The correction that is chosen where outputs are worth so much with each."""

        def evaluate(evaluator: Evaluator, candidate: Candidate, best: object = None) -> Score:
            found = decibels[float(candidate.shifts["v3"][0]) if candidate.shifts else 0.0]
            return Score(found, found)

        monkeypatch.setattr(Evaluator, "evaluate", evaluate)
        monkeypatch.setattr(search, "filter_shifts", lambda _: self.LOST)
        monkeypatch.setattr(bias_shifts, "find_shifts", lambda *_: self.LEFT)
        np.savez(folder / "x.npz", v0=images(8))
        table: CalibrationTable = Session().calibrate(product(), dataset=folder / "x.npz")
        lines = table.sections.get("bias_shift", ())
        assert len(lines) <= 1
        return float(lines[0].split()[1]) if lines else 0.0

    def test_half_of_what_int8_leaves_beyond_the_filters_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.taken({0.0: 20.0, 1.0: 20.0, 2.0: 20.0, 3.0: 20.29}, tmp_path, monkeypatch) == 2.0

    @each("better", [0.0, 1.0, 3.0])
    def test_less_or_all_of_it_is_taken_where_outputs_are_clearly_better(
        self, better: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decibels = dict.fromkeys((0.0, 1.0, 2.0, 3.0), 20.0) | {better: 20.31}
        assert self.taken(decibels, tmp_path, monkeypatch) == better


class TestEqualized:
    """Two convolutions of channels of unlike size."""

    def module(self) -> Module:
        net = Network(1, 4, 8, 8)
        module = net.finish(
            net.op(
                top.Conv(kernel_shape=(1, 1)),
                net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), net.input, net.weight(4, 4, 1, 1), net.none),
                net.weight(4, 4, 1, 1),
                net.none,
            )
        )
        filters = next(name for name in module.weights.names() if name.startswith("w"))
        module.weights[filters] = module.weights[filters] * np.float32([1, 8, 64, 512]).reshape(4, 1, 1, 1)
        return module

    def race(self, gains: Sequence[float], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Race, list[int]]:
        """The race where outputs gain so much in each round, and the samples of each run of a network."""
        runs: list[int] = []

        def scored(form: object, search: object, samples: Sequence[object]) -> Score:
            runs.append(len(samples))
            gain = gains[(len(runs) - 1) // 2] if len(runs) % 2 == 0 else 0.0
            return Score(20.0 + gain, 20.0 + gain)

        monkeypatch.setattr(network_comparison, "_scored", scored)
        monkeypatch.setattr(races, "RACE", races.RACE[:1])
        np.savez(folder / "x.npz", v0=images(24))
        module = self.module()
        counting = Counting(64)
        with open_pool(1) as pool:
            engine = Engine(module, CONTEXT, pool, counting)
            progress = Progress(open_samples(inputs_of(module), folder / "x.npz"), counting)
            engine.collect(progress)
            race = Race(engine.search_of(progress, [Max()], frozenset({"v0"}), Settings()), Registry())
            race.run()
        return race, runs

    def test_a_sample_that_shows_no_gain_ends_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        race, runs = self.race([0.2], tmp_path, monkeypatch)
        assert not race.search.best.factors
        assert runs == [1, 1]

    def test_more_samples_say_whether_the_gain_is_clear(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        race, runs = self.race([0.4, 1.9], tmp_path, monkeypatch)
        assert not race.search.best.factors
        assert runs == [1, 1, 2, 2]
        race, runs = self.race([0.4, 2.1, 2.9], tmp_path, monkeypatch)
        assert not race.search.best.factors
        assert runs == [1, 1, 2, 2, 8, 8]
        race, _ = self.race([0.4, 2.1, 3.1], tmp_path, monkeypatch)
        assert race.search.best.factors
        assert race.search.settings.round_weights
        assert [entrant.proposer for entrant in race.rounds[0].entrants if entrant.selected] == [
            "cross-layer-equalization"
        ]


class TestInputs:
    def threshold(self, x: Array, folder: Path) -> float:
        """Of an input of which the network shows what is above zero."""
        net = Network(1, 1, 24, 24)
        shown = net.op(
            top.Conv(kernel_shape=(1, 1), do_relu=True), net.input, net.weight(1, 1, 1, 1, low=0.5), net.none
        )
        module = net.finish(net.op(top.Conv(kernel_shape=(3, 3)), shown, net.weight(4, 1, 3, 3), net.none))
        np.savez(folder / "x.npz", v0=x)
        return Session().calibrate(module, dataset=folder / "x.npz").entries["v0"].threshold

    def test_few_large_values_that_mean_little_are_cut_off(self, tmp_path: Path) -> None:
        x = images(12, 1, 24)
        x[:, 0, 0, 11, 11] = -40  # one in 576
        assert self.threshold(x, tmp_path) < 2

    def test_what_outputs_show_is_not_cut_off(self, tmp_path: Path) -> None:
        x = images(12, 1, 24)
        x[:, 0, 0, 11, 11] = 40
        assert self.threshold(x, tmp_path) == 40

    def test_values_that_fill_their_range_keep_it(self, tmp_path: Path) -> None:
        x = images(12, 1, 24)
        assert self.threshold(x, tmp_path) == np.abs(x).max()


def test_candidates_that_compute_the_same_are_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, ...]] = []
    evaluate = Evaluator.evaluate

    def watched(self: Evaluator, candidate: Candidate, best: Any = None) -> Score:
        entries, shifts = candidate.entries, candidate.shifts
        whole = [entries[name].threshold for name in sorted(entries)]
        seen.append((*whole, *(float(one) for name in sorted(shifts) for one in shifts[name])))
        return evaluate(self, candidate, best)

    module = product()
    filters = next(name for name in module.weights.names() if module.weights[name].ndim == 4)
    whole = FakeNetwork(module).filters(1)  # integers already, so that there is nothing to correct
    module.weights[filters] = whole
    monkeypatch.setattr(Evaluator, "evaluate", watched)
    np.savez(tmp_path / "x.npz", v0=images(8))
    Session().calibrate(module, dataset=tmp_path / "x.npz")
    plain = [one for one in seen if not any(one[2:])]
    assert plain
    assert len(plain) == len(set(plain))


@each(("quick", "asked", "runs"), [(1e10, False, 1), (0.0, False, 0), (0.0, True, 1)])
def test_filters_are_rounded_by_their_operands_where_that_is_quick_or_asked_for(
    quick: float, asked: bool, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(search, "BUDGETS", replace(BUDGETS, quick=quick))
    monkeypatch.setattr(rounded_weights, "find_rounding", lambda _, samples, __: seen.append(len(samples)) or {})
    np.savez(tmp_path / "x.npz", v0=images(24))
    Session().calibrate(product(), dataset=tmp_path / "x.npz", options={"round_weights": asked})
    assert len(seen) == runs
    assert all(one == 16 for one in seen)
