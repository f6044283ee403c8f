"""What errors are measured in: outputs as they are, and logits that reach far as their reader takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc_ops import top
from tpuc_quantize.metrics.companding import compand, slopes
from tpuc_quantize.metrics.gradients import Gradients
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.metrics.taps import Measure, measure_of
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.simulation.output_slots import output_slots

from tests.families import each
from tests.passes.graphs import Network

Array = NDArray[Any]


def _measured(module: Module, x: Array) -> tuple[FakeNetwork, Measure]:
    net = FakeNetwork(module)
    states = [net.run({item.name: x.astype(np.float32) for item in net.plan.inputs}, integer=False, keep=True)]
    outputs = [net.outputs(one) for one in states]
    return net, measure_of(net, task_metrics_of(module, outputs), states)


def _logits(lowest: float) -> Array:
    x = np.linspace(lowest, lowest / 10, 400).reshape(1, 400, 1)
    x[0, 7] = 2.0
    return x


class TestCompanding:
    def test_what_is_far_below_zero_is_nothing(self) -> None:
        units = np.ones(4)
        assert compand(np.array([-8000.0, -100.0, 0.0, 8000.0]), units) == pytest.approx([0, 0, 0.5, 1], abs=1e-9)

    def test_what_has_no_unit_stays(self) -> None:
        x = np.array([[-8000.0, 5.0]])
        assert compand(x, None).tolist() == [-8000.0, 5.0]
        assert compand(x, np.array([1.0, np.inf])).tolist() == pytest.approx([0.0, 5.0])

    def test_a_larger_unit_stretches(self) -> None:
        x = np.linspace(-20, 20, 9)
        assert compand(x * 50, np.full(9, 50.0)) == pytest.approx(compand(x, np.ones(9)))

    def test_slopes_are_those_of_differences(self) -> None:
        x, units, step = np.linspace(-30, 30, 61), np.linspace(0.5, 3, 61), 1e-4
        units[5] = np.inf
        difference = (compand(x + step, units) - compand(x - step, units)) / (2 * step)
        assert slopes(x, units) == pytest.approx(difference, abs=1e-6)


class TestMeasure:
    def test_logits_count_as_they_are_unless_they_reach_far(self) -> None:
        for lowest, companded in ((-40.0, False), (-8000.0, True)):
            net = Network(1, 400, 1)
            module = net.finish(net.op(top.AddConst(const_val=0.0), net.input))
            fake, measure = _measured(module, _logits(lowest))
            assert list(measure.slots) == output_slots(fake)
            assert bool(measure.units) == companded

    def test_logits_beside_boxes_are_companded_alone(self) -> None:
        net = Network(1, 400, 1)
        scores = net.op(top.AddConst(const_val=0.0), net.input)
        boxes = net.op(top.SubConst(const_val=0.0, is_reverse=True), net.input)
        module = net.finish(net.op(top.Permute(order=(0, 2, 1)), net.op(top.Concat(axis=2), scores, boxes)))
        fake, measure = _measured(module, _logits(-8000.0))
        names = [fake.plan.names[slot] for slot in measure.slots]
        assert names == [scores.name, boxes.name]
        assert [fake.plan.names[slot] for slot in measure.units] == [scores.name]

    @each(("reach", "slot"), [(30.0, "logits"), (8000.0, "scores")])
    def test_a_softmax_of_far_logits_is_measured_itself(self, reach: float, slot: str) -> None:
        net = Network(1, 5, 2)
        logits = net.op(top.AddConst(const_val=0.0), net.input)
        scores = net.op(top.Softmax(axis=2), logits)
        fake, measure = _measured(net.finish(scores), np.full((1, 5, 2), reach) * [1, -1])
        expected = {"logits": logits.name, "scores": scores.name}
        assert [fake.plan.names[one] for one in measure.slots] == [expected[slot]]
        assert not measure.enough
        assert measure.is_far == (reach > 64)

    @each("other", [-400, -200])
    def test_what_rising_functions_make_of_near_logits_is_measured_in_these(self, other: int) -> None:
        """`x + 400 * min(x, 0)` keeps the order of classes; with 200 for one of them, their scores are measured."""
        net = Network(1, 6)
        logits = net.op(top.MatMul(), net.input, net.build.weight("w", np.eye(6, dtype=np.float32)))
        below = net.op(top.AddConst(const_val=0.0, do_relu=True), net.op(top.MulConst(const_val=-1.0), logits))
        factors = np.full((1, 6), -400, np.float32)
        factors[0, 2] = other
        far = net.op(top.Add(), logits, net.op(top.Mul(), below, net.build.weight("slopes", factors)))
        scores = net.op(top.Softmax(axis=1, beta=2.0), far)
        module = net.finish(scores)
        x = np.array([[[5.0, -1, 4, -5, 3, -6]], [[-20.0, 3, -5.5, 2, -5, 8]]], np.float32)
        fake = FakeNetwork(module)
        states = [fake.run({item.name: one for item in fake.plan.inputs}, integer=False, keep=True) for one in x]
        task_metrics = task_metrics_of(module, [fake.outputs(one) for one in states])
        measure = measure_of(fake, task_metrics, states)
        names = [fake.plan.names[slot] for slot in measure.slots]
        assert measure.is_far
        (metric,) = (measure.metric(one) for one in task_metrics)
        outputs = [measure.outputs(fake, one) for one in states]
        if other == -200:
            assert names == [scores.name]
            assert metric is task_metrics[0]
        else:
            assert names == [logits.name]
            assert metric.part.output == logits.name
        for one, values in zip(outputs, x, strict=True):
            powers = np.exp(2 * values)
            assert metric.prediction(one) == pytest.approx(powers / powers.sum(), abs=1e-5)

    def test_far_logits_of_sigmoids_have_a_limit_and_scores_are_measured(self) -> None:
        net = Network(1, 400, 1)
        logits = net.op(top.AddConst(const_val=0.0), net.input)
        turned = net.op(top.Permute(order=(0, 2, 1)), logits)
        scores = net.op(top.Sigmoid(), turned)
        fake, measure = _measured(net.finish(net.op(top.Reshape(shape=(1, 400)), scores)), _logits(-8000.0))
        assert [fake.plan.names[one] for one in measure.slots] == [scores.name]
        assert {fake.plan.names[one]: limit for one, limit in measure.enough.items()} == {logits.name: 16.0}
        assert not measure.units
        assert measure.is_far

    def test_gradients_are_those_of_what_is_measured(self) -> None:
        """Only the place that may say yes counts for what reaches it; its neighbors are 8000 below zero."""
        net = Network(1, 400, 1)
        module = net.finish(net.op(top.AddConst(const_val=0.0), net.op(top.MulConst(const_val=2.0), net.input)))
        fake, measure = _measured(module, _logits(-8000.0))
        state = fake.run(
            {item.name: _logits(-8000.0).astype(np.float32) for item in fake.plan.inputs}, integer=False, keep=True
        )
        walked = Gradients(fake, measure).weights(iter([(0, state)]), np.random.default_rng(0), {measure.slots[0]: 1.0})
        for _, _, gradient in walked:
            assert np.abs(gradient).reshape(-1).argmax() == 7
            assert np.count_nonzero(np.abs(gradient) > 1e-6) == 1
