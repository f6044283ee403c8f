"""From thresholds to a table: costs written out by hand, the best candidate, odd tensors and tables."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE, Module, Value
from tpuc.errors import CalibrationError
from tpuc_driver.session import Session
from tpuc_driver.work import open_pool
from tpuc_ops import top
from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.calibration.evaluator import Evaluator
from tpuc_quantize.calibration.output_sensitivity import (
    BINS,
    Importance,
    _importance,
    centers_of,
    choose_by_outputs,
    costs,
)
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.importing.propagate_calibration import PropagateCalibration
from tpuc_quantize.metrics.scores import Score
from tpuc_quantize.options.budgets import operations_of
from tpuc_quantize.options.tuning import CHECKS
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.passes.graphs import CONTEXT, Network


def importance(*elements: tuple[float, float], limit: float = 8.0) -> Importance:
    """One sample with elements of so much magnitude and gradient."""
    squares, sums = np.zeros(BINS, np.float32), np.zeros(BINS, np.float32)
    for magnitude, gradient in elements:
        place = int(np.abs(centers_of(limit) - magnitude).argmin())
        squares[place] += gradient**2
        sums[place] += gradient
    return Importance((squares,), (sums,))


class TestCosts:
    def test_rounding_costs_a_twelfth_of_the_squared_step(self) -> None:
        (found,) = costs(importance((3.0, 2.0)), 8.0, [16.0], signed=True)
        assert found == pytest.approx(4 * (16 / 128) ** 2 / 12)

    def test_what_is_cut_off_adds_up_over_elements(self) -> None:
        one, ten = (costs(importance(*[(7.996, 1.0)] * n), 8.0, [4.0], signed=True)[0] for n in (1, 10))
        rounding = (4 / 128) ** 2 / 12
        assert (ten - 10 * rounding) / (one - rounding) == pytest.approx(100, rel=1e-3)

    def test_half_of_the_cost_is_that_of_values_thirty_percent_larger(self) -> None:
        one, step = importance((7.996, 1.0)), 8.0 / 127
        (found,) = costs(one, 8.0, [8.0 * 128 / 127], signed=True)
        assert found == pytest.approx(step**2 / 12 + (7.996 * 1.3 - 8.0) ** 2 / 2, rel=1e-2)
        (found,) = costs(one, 8.0, [8.0 * 128 / 127], signed=True, headroom=2.0)
        assert found == pytest.approx(step**2 / 12 + (7.996 * 2.0 - 8.0) ** 2 / 2, rel=1e-2)

    def test_one_loud_element_that_nobody_hears_is_cut_off(self) -> None:
        entries = {"a": TensorThreshold(8.0, -8.0, 8.0)}
        quiet, loud = [(0.5 + n / 100, 1.0) for n in range(50)], (7.99, 1e-4)
        assert choose_by_outputs(entries, {"a": importance(*quiet, loud)})["a"].threshold == pytest.approx(4.0)
        assert choose_by_outputs(entries, {"a": importance(*quiet, (7.99, 9.0))})["a"].threshold > 7.9


@pytest.fixture
def module() -> Module:
    net = Network(1, 3, 8, 8)
    value = net.op(top.SiLU(), net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(8, 3, 3, 3), net.weight(8)))
    return net.finish(net.op(top.Conv(kernel_shape=(3, 3)), value, net.weight(4, 8, 3, 3), net.none))


def samples(count: int = 12) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((count, 1, 3, 8, 8)).astype(np.float32)


def candidate(entries: Entries) -> Candidate:
    return Candidate("any", entries)


class TestEvaluator:
    def judge(self, module: Module, count: int = 4) -> Evaluator:
        def quantized(candidate: Candidate) -> FakeNetwork:
            copy = module.clone()
            context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(candidate.entries)})
            ImportCalibration().run(copy, context)
            PropagateCalibration().run(copy, context)
            return FakeNetwork(copy)

        return Evaluator(module, [{"v0": one} for one in samples(count)], quantized, open_pool(1))

    def test_what_is_hopeless_runs_on_half_of_the_samples(self, module: Module, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", v0=samples())
        options = {"tune_num": 0, "bias_num": 0}
        table = Session().calibrate(module, dataset=tmp_path / "x.npz", method="max", options=options)
        judge, good = self.judge(module), dict(table.entries)
        bad = {name: dataclasses.replace(one, threshold=one.threshold / 4) for name, one in good.items()}
        half = Evaluator(module, judge.samples[:2], judge.quantized, judge.pool)
        best, whole = judge.evaluate(candidate(good)), judge.evaluate(candidate(bad))
        assert best.half == pytest.approx(half.evaluate(candidate(good)).decibels)
        given_up = judge.evaluate(candidate(bad), best)
        assert given_up.half == pytest.approx(half.evaluate(candidate(bad)).decibels) != whole.decibels
        assert best.half - given_up.half > 1
        assert best.decibels - given_up.decibels == pytest.approx(best.half - given_up.half)
        assert judge.evaluate(candidate(good), whole) == best

    def test_a_quarter_of_many_samples_tells_what_is_far_below(self, module: Module, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", v0=samples())
        options = {"tune_num": 0, "bias_num": 0}
        table = Session().calibrate(module, dataset=tmp_path / "x.npz", method="max", options=options)
        judge, good = self.judge(module, CHECKS.few_samples), dict(table.entries)
        bad = {name: dataclasses.replace(one, threshold=one.threshold / 4) for name, one in good.items()}
        quarter = Evaluator(module, judge.samples[: CHECKS.few_samples // 4], judge.quantized, judge.pool)
        best, given_up = (
            judge.evaluate(candidate(good)),
            judge.evaluate(candidate(bad), judge.evaluate(candidate(good))),
        )
        assert best.quarter == pytest.approx(quarter.evaluate(candidate(good)).decibels)
        assert given_up.quarter == pytest.approx(quarter.evaluate(candidate(bad)).decibels)
        assert math.isnan(given_up.half)
        assert best.decibels - given_up.decibels == pytest.approx(best.quarter - given_up.quarter)
        assert best.quarter - given_up.quarter > 2

    def test_time_is_reckoned_from_the_network_alone(self, module: Module) -> None:
        assert operations_of(module) == operations_of(module.clone()) > 0


class TestFarLogits:
    """Two images of logits, joined: up to 4 where there is something, and thousands below zero everywhere else."""

    def module(self) -> Module:
        net = Network(1, 1, 20, 20)
        parts: list[Value] = []
        for factor in (4.0, 2.0):
            near = net.op(top.MulConst(const_val=factor), net.input)
            far = net.op(top.MulConst(const_val=9000.0), net.op(top.MinConst(const_val=0.0), near))
            parts.append(net.op(top.Add(), near, far))
        return net.finish(net.op(top.Reshape(shape=(1, 800, 1)), net.op(top.Concat(axis=1), *parts)))

    def images(self) -> list[dict[str, NDArray[np.float32]]]:
        random = np.random.default_rng(3)
        images = random.uniform(-1, -0.05, (24, 1, 1, 20, 20)).astype(np.float32)
        for image in images:
            image[0, 0, 3, 3:6] = random.uniform(0.3, 1, 3)
        return [{"v0": image} for image in images]

    def test_their_thresholds_and_those_of_what_joins_them_are_as_large_as_they_have_to_be(self) -> None:
        module = self.module()
        judge = Evaluator(module, self.images()[:6], lambda _: FakeNetwork(module), open_pool(1))
        names = [one.result.name for one in module.main.operations if one.results and one.result.name.startswith("v")]
        found = judge.saturated({name: TensorThreshold(36000.0, -36000.0, 4.0) for name in names})
        cut = [
            one.result.name for one in module.main.operations if isinstance(one.op, (top.Add, top.Concat, top.Reshape))
        ]
        assert [name for name, one in found.items() if one.threshold < 36000.0] == cut
        assert {found[name].threshold for name in cut} == {16.0}

    def test_a_table_that_keeps_what_is_found_is_taken(self, tmp_path: Path) -> None:
        module = self.module()
        np.savez(tmp_path / "x.npz", v0=np.stack([one["v0"] for one in self.images()]))
        table = Session().calibrate(module, dataset=tmp_path / "x.npz")
        (name,) = (value.name for value in module.main.outputs)
        assert table.entries[name].threshold == pytest.approx(16.0 * 1.05)
        assert any("logits cut" in remark or "thresholds by scores" in remark for remark in table.remarks)


@pytest.mark.parametrize("reach", [8.0, 9000.0])
def test_behind_products_logits_that_reach_far_are_judged_as_floats(
    reach: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As chips compute them; a byte between -9,000 and 4 holds nothing."""
    net = Network(1, 1, 20, 20)
    near = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.build.weight("w", np.full((1, 1, 1, 1), 4.0)), net.none)
    far = net.op(top.MulConst(const_val=reach), net.op(top.MinConst(const_val=0.0), near))
    logits = net.op(top.Add(), near, far)
    module = net.finish(net.op(top.Sigmoid(), logits))
    seen: list[frozenset[str]] = []

    def spy(judge: Evaluator, *arguments: Any) -> Score:
        seen.append(judge.quantized(arguments[0]).floats)
        return judge_as_it_is(judge, *arguments)

    judge_as_it_is = Evaluator.evaluate
    monkeypatch.setattr(Evaluator, "evaluate", spy)
    np.savez(tmp_path / "x.npz", v0=np.random.default_rng(3).uniform(-1, 1, (24, 1, 1, 20, 20)).astype(np.float32))
    Session().calibrate(module, dataset=tmp_path / "x.npz")
    tail = {one.name for one in module.main.operations if one.results and one.name.startswith("v")} - {"v0", near.name}
    assert len(tail) == 4
    assert {*seen} == {frozenset(tail) if reach > 64 else frozenset()}


def test_calibration_with_tuning_is_nearer_than_the_method_alone(module: Module, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", v0=samples(24))
    plain = Session().calibrate(module, dataset=tmp_path / "x.npz", options={"tune_num": 0, "bias_num": 0})
    tuned = Session().calibrate(module, dataset=tmp_path / "x.npz", options={"bias_num": 0})
    judge = TestEvaluator().judge(module)
    assert judge.evaluate(candidate(tuned.entries)).decibels > judge.evaluate(candidate(plain.entries)).decibels - 0.1


def test_a_tensor_of_zeros_and_one_of_a_single_value_get_usable_thresholds(tmp_path: Path) -> None:
    net = Network(1, 3, 8, 8)
    nothing = net.op(top.MulConst(const_val=0.0), net.input)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), nothing, net.weight(2, 3, 1, 1), net.weight(2)))
    np.savez(tmp_path / "x.npz", v0=np.full((4, 1, 3, 8, 8), 2.5, np.float32))
    table = Session().calibrate(module, dataset=tmp_path / "x.npz")
    thresholds = {name: entry.threshold for name, entry in table.entries.items()}
    assert thresholds[nothing.name] == 1e-5
    assert thresholds["v0"] == 2.5
    assert all(value >= 1e-5 for value in thresholds.values())


def test_an_empty_data_set_is_one_sentence(module: Module, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with pytest.raises(CalibrationError, match=r"images: .*\.$"):
        Session().calibrate(module, dataset=tmp_path / "images")
    np.savez(tmp_path / "none.npz", v0=samples(0))
    with pytest.raises(CalibrationError, match="none of the 1 samples can be read"):
        Session().calibrate(module, dataset=tmp_path / "none.npz")


class TestTableOfAnotherNetwork:
    def entries(self, module: Module, folder: Path) -> dict[str, TensorThreshold]:
        np.savez(folder / "x.npz", v0=samples(2))
        return dict(Session().calibrate(module, dataset=folder / "x.npz", options={"tune_num": 0}).entries)

    def test_a_missing_tensor_is_named(self, module: Module, tmp_path: Path) -> None:
        entries = self.entries(module, tmp_path)
        gone = list(entries)[1]
        del entries[gone]
        context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(entries)})
        with pytest.raises(CalibrationError, match=rf"no range for '{gone}', nor for 0 other of \d+ values"):
            ImportCalibration().run(module, context)

    def test_a_foreign_name_is_remarked_on_and_left_out(self, module: Module, tmp_path: Path) -> None:
        entries = {**self.entries(module, tmp_path), "foreign": TensorThreshold(1.0, -1.0, 1.0)}
        remarks: list[str] = []
        results = {CALIBRATION_TABLE: CalibrationTable(entries)}
        ImportCalibration().run(module, dataclasses.replace(CONTEXT, results=results, remark=remarks.append))
        (remark,) = remarks
        assert "ignored 1 values that are not in module" in remark
        assert "'foreign'" in remark


def test_ranges_below_the_least_normal_float_count_zeros_as_zeros() -> None:
    """The first bin would begin below the least number there is."""
    found = _importance(np.array([0, 1e-40], np.float32), np.ones(2, np.float32), 1e-40, None)
    assert found.squares[0].sum() == 2
    assert np.isfinite(centers_of(1e-40)).all()
