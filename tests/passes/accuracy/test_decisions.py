"""What outputs decide: recognized by the functions at the end or by values, and counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_ops import top
from tpuc_quantize.metrics.agreement import Agreement, Classes, Labels, Numbers, Presence, TaskMetric
from tpuc_quantize.metrics.output_groups import parts_of
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.metrics.scores import halves

from tests.families import each
from tests.passes.graphs import Network

Array = NDArray[Any]


def _passing(*shape: int) -> Module:
    """Its output has the values of the input; no function says what they mean."""
    net = Network(*shape)
    return net.finish(net.op(top.MulConst(const_val=1.0), net.input))


def _rows(module: Module, *arrays: Array) -> list[dict[str, Array]]:
    host = Interpreter(module)
    rows = [host.run({name: array.astype(np.float32) for name in host.inputs}) for array in arrays]
    return [{name: row[name] for name in host.output_names} for row in rows]


def _only(module: Module, *arrays: Array) -> tuple[TaskMetric, list[dict[str, Array]]]:
    rows = _rows(module, *arrays)
    (found,) = task_metrics_of(module, rows)
    return found, rows


def _closeness(metric: TaskMetric, wanted: list[dict[str, Array]], got: list[dict[str, Array]]) -> float:
    """The signal-to-noise ratio of the meanings, in decibels."""
    return halves(np.array([metric.energies(*pair) for pair in zip(wanted, got, strict=True)]))[1]


@each("op", [top.LayerNorm(axis=2), top.Tanh(), top.RMSNorm()])
def test_features_are_no_logits(op: Any) -> None:
    """An encoder's outputs may lie far below zero nearly everywhere, as those of a detector do."""
    net = Network(1, 8, 6)
    operands = [net.weight(6) for _ in range({"top.LayerNorm": 2, "top.RMSNorm": 1}.get(op.name, 0))]
    module = net.finish(net.op(op, net.input, *operands))
    x = np.full((1, 8, 6), -3.0)
    x[0, 2, 1] = 2
    found, _ = _only(module, x)
    assert isinstance(found, Numbers)


class TestParts:
    def test_parts_are_what_outputs_were_put_together_from(self) -> None:
        net = Network(1, 3, 4, 4)
        scores = net.op(top.Sigmoid(), net.input)
        classes = net.op(top.Softmax(axis=1), net.input)
        joined = net.op(top.Concat(axis=1), scores, net.op(top.Permute(order=(0, 1, 3, 2)), classes))
        last = net.op(top.Permute(order=(0, 2, 1)), net.op(top.Reshape(shape=(1, 6, 16)), joined))
        module = net.finish(last, joined)
        x = np.random.default_rng(1).normal(size=(1, 3, 4, 4)).astype(np.float32)
        host = Interpreter(module)
        values = host.run(dict.fromkeys(host.inputs, x), "all")
        parts = list(parts_of(module))
        assert [part.name for part in parts] == [scores.name, classes.name]
        for part in parts:
            assert part.output == last.name
            assert np.array_equal(part.of(values), values[part.name])
            source = values[part.source].reshape(-1)
            assert np.array_equal(source[part.sources], values[part.name])

    def test_multiples_are_what_they_are_multiples_of(self) -> None:
        net = Network(1, 3, 4)
        classes = net.op(top.Softmax(axis=1), net.input)
        smaller = net.op(top.MulConst(const_val=1e-3), net.op(top.Reshape(shape=(1, 12)), classes))
        cut = net.op(top.MulConst(const_val=1e-3, do_relu=True), net.input)
        module = net.finish(net.op(top.MulConst(const_val=-2.0), smaller), cut)
        x = np.random.default_rng(1).normal(size=(1, 3, 4)).astype(np.float32)
        host = Interpreter(module)
        values = host.run(dict.fromkeys(host.inputs, x), "all")
        scores, numbers = parts_of(module)
        assert (scores.name, scores.factor) == (classes.name, pytest.approx(-2e-3))
        assert scores.of(values) == pytest.approx(values[classes.name], rel=1e-6)
        assert (numbers.name, numbers.factor) == (cut.name, 1.0)
        assert [one.kind for one in task_metrics_of(module, [values])] == ["classes", "numbers"]

    def test_constants_decide_nothing(self) -> None:
        net = Network(1, 3)
        module = net.finish(net.op(top.Concat(axis=1), net.op(top.Sigmoid(), net.input), net.weight(1, 3)))
        assert [part.places.tolist() for part in parts_of(module)] == [[[0, 1, 2]]]


class TestRecognized:
    def test_functions_at_the_end_say_what_they_are(self) -> None:
        net = Network(1, 5, 4)
        ends = (
            net.op(top.Sigmoid(), net.input),
            net.op(top.Softmax(axis=2), net.input),
            net.op(top.Softmax(axis=1, log=True), net.input),
            net.op(top.Sigmoid(scale=2.0, bias=-0.5), net.input),
        )
        module = net.finish(*ends)
        steep = np.zeros((1, 5, 4))
        steep[:, :, 1] = 3.0
        found = task_metrics_of(module, _rows(module, steep, steep))
        assert [type(one) for one in found] == [Presence, Classes, Classes, Numbers]
        assert isinstance(found[1], Classes)
        assert (found[1].axis, found[1].background) == (2, 1)
        assert isinstance(found[2], Classes)
        assert found[2].is_log

    def test_a_row_is_one_of_classes_unless_it_is_the_input_again(self) -> None:
        net = Network(1, 8)
        module = net.finish(net.op(top.MatMul(), net.input, net.weight(8, 10), net.none))
        samples = np.random.default_rng(2).normal(size=(4, 1, 8))
        assert isinstance(_only(module, *samples)[0], Classes)
        assert isinstance(_only(_passing(1, 8), *samples)[0], Numbers)

    def test_the_margin_of_rows_gives_their_scale(self) -> None:
        """Logits of 4000 and 0 are as sure as those of 4 and 0."""
        net = Network(1, 8)
        module = net.finish(net.op(top.Slice(offset=(0, 0), steps=(1, 1), ends=(1, 3), axes=()), net.input))
        sample = np.array([[4000.0, 0, -1000, 0, 0, 0, 0, 0]])
        found, _ = _only(module, sample)
        assert isinstance(found, Classes)
        assert found.scale == 1000.0

    @each("stretch", [1.0, 1000.0])
    def test_numbers_far_below_zero_nearly_everywhere_are_logits(self, stretch: float) -> None:
        logits = np.random.default_rng(3).normal(-8, 3, (1, 400, 1))
        logits = np.where(logits < -1, -1 + (logits + 1) * stretch, logits)
        logits[0, 7] = 2.5
        found, _ = _only(_passing(1, 400, 1), logits)
        assert isinstance(found, Presence)
        assert found.scale == 1.0

    def test_small_and_huge_logits_have_a_scale(self) -> None:
        logits = np.random.default_rng(4).normal(-8, 2, (1, 400, 1))
        logits[0, 7] = 8.0
        largest = np.abs(logits).max()
        small, huge = (_only(_passing(1, 400, 1), logits * factor)[0] for factor in (1e-3, 1e3))
        assert isinstance(small, Presence)
        assert small.scale == pytest.approx(largest * 1e-3 / 8)
        assert isinstance(huge, Presence)
        assert huge.scale == pytest.approx(1000)

    def test_lengths_are_no_logits(self) -> None:
        lengths = np.random.default_rng(5).uniform(-20, -12, (1, 400, 1))
        assert isinstance(_only(_passing(1, 400, 1), lengths)[0], Numbers)

    def test_scores_and_boxes_in_one_image_are_told_apart_by_channel(self) -> None:
        random = np.random.default_rng(6)
        image = np.concatenate([random.normal(0, 2, (1, 4, 9, 9)), random.normal(-7, 2, (1, 1, 9, 9))], 1)
        image[0, 4, 3, 3] = 3.0
        module = _passing(1, 5, 9, 9)
        scores, boxes = task_metrics_of(module, _rows(module, image))
        assert isinstance(scores, Presence)
        assert scores.part.shape == (1, 1, 9, 9)
        assert isinstance(boxes, Numbers)
        assert boxes.part.shape == (1, 4, 9, 9)
        assert [one.metric for one in boxes.scores] == [scores]

    def test_parts_of_boxes_whose_whole_output_has_scores_are_numbers(self) -> None:
        """The first of each place's four numbers looks like a logit."""
        random = np.random.default_rng(8)
        net = Network(1, 60, 4)
        halves = [net.op(top.MulConst(const_val=factor), net.input) for factor in (1.0, 2.0)]
        boxes = net.op(top.Concat(axis=1), *halves)
        weight = net.build.weight("scoring", np.ones((4, 1), np.float32))
        scores = net.op(top.Sigmoid(), net.op(top.MatMul(), boxes, weight))
        values = random.normal(0, 2, (1, 60, 4))
        values[..., 0] = random.uniform(-20, -12, (1, 60))
        values[0, 7, 0] = 3.0
        module = net.finish(boxes, scores)
        *numbers, presence = task_metrics_of(module, _rows(module, values))
        assert isinstance(presence, Presence)
        assert [(type(one), one.part.shape) for one in numbers] == [(Numbers, (1, 60, 4))] * 2

    @each("axis", [1, 2])
    def test_parts_of_boxes_count_by_the_scores_of_their_places(self, axis: int) -> None:
        """Something is at place 1 of the first half, and at all other places of the second, which is its opposite."""
        net = Network(1, *np.roll((6, 4), axis - 2))
        halves = [net.op(top.MulConst(const_val=factor), net.input) for factor in (1.0, -1.0)]
        boxes = net.op(top.Concat(axis=3 - axis), *halves)
        rows = boxes if axis == 2 else net.op(top.Permute(order=(0, 2, 1)), boxes)
        scoring = net.op(top.MatMul(), rows, net.build.weight("scoring", np.ones((4, 1), np.float32)))
        module = net.finish(boxes, net.op(top.Sigmoid(), net.op(top.Reshape(shape=(1, 12)), scoring)))
        values = np.full((1, 6, 4), -5.0)
        values[0, 1] = 5.0
        wanted = _rows(module, values if axis == 2 else values.transpose(0, 2, 1))
        *numbers, _ = task_metrics_of(module, wanted)
        assert [type(one) for one in numbers] == [Numbers, Numbers]
        first, second = (np.asarray(one.weights(wanted[0]))[0, :, 0] for one in numbers)
        np.testing.assert_allclose(first, [0.01, 1, 0.01, 0.01, 0.01, 0.01], atol=1e-6)
        np.testing.assert_allclose(second, [1, 0.01, 1, 1, 1, 1], atol=1e-6)

    def test_whole_numbers_are_labels(self) -> None:
        net = Network(1, 6)
        module = net.finish(net.op(top.Arg(axis=1, keepdims=False, mode="ArgMax"), net.input))
        rows = _rows(module, np.eye(6)[2:3])
        wanted = [{name: array.astype(np.int32) for name, array in row.items()} for row in rows]
        (found,) = task_metrics_of(module, wanted)
        assert isinstance(found, Labels)


class TestAgreement:
    def test_places_count_where_one_is_sure(self) -> None:
        """Sure places: 0 (kept), 1 (lost), 2 (found without cause); 3 is as good as a half in both."""
        net = Network(1, 4, 1)
        module = net.finish(net.op(top.Sigmoid(), net.input))
        wanted, got = (_rows(module, np.reshape(x, (1, 4, 1))) for x in ([3, 2, -5, 0.2], [2, -2, 2, -0.2]))
        (found,) = task_metrics_of(module, wanted)
        assert found.agreement(wanted, got) == Agreement(1, 3)

    def test_nothing_anywhere_is_one_decision(self) -> None:
        net = Network(1, 4, 1)
        module = net.finish(net.op(top.Sigmoid(), net.input))
        rows = _rows(module, np.full((1, 4, 1), -9), np.full((1, 4, 1), -7))
        (found,) = task_metrics_of(module, rows)
        assert found.agreement(rows, rows) == Agreement(2, 2)

    def test_the_best_class_of_rows(self) -> None:
        net = Network(1, 8)
        module = net.finish(net.op(top.Softmax(axis=1), net.input))
        wanted, got = (_rows(module, *(np.eye(8)[[place]] for place in places)) for places in ([1, 2, 3], [1, 5, 3]))
        (found,) = task_metrics_of(module, wanted)
        assert found.agreement(wanted, got) == Agreement(2, 3)

    def test_background_against_background_does_not_count(self) -> None:
        net = Network(1, 6, 3)
        module = net.finish(net.op(top.Softmax(axis=2), net.input))
        a, b = np.zeros((1, 6, 3)), np.zeros((1, 6, 3))
        a[0, :, 0] = b[0, :, 0] = 5
        a[0, 2, 1] = b[0, 2, 1] = 10  # found by both
        a[0, 3, 1] = b[0, 3, 2] = 10  # of another class
        wanted, got = _rows(module, a), _rows(module, b)
        (found,) = task_metrics_of(module, wanted)
        assert found.agreement(wanted, got) == Agreement(1, 2)

    def test_numbers_are_near_or_not_where_something_is(self) -> None:
        net = Network(1, 5, 1)
        boxes = net.op(top.MulConst(const_val=10.0), net.input)
        module = net.finish(net.op(top.Sigmoid(), net.input), boxes)
        wanted = _rows(module, np.reshape([9, -9, -9, -9, -9], (1, 5, 1)))
        task_metrics = task_metrics_of(module, wanted)
        numbers = next(one for one in task_metrics if one.name == boxes.name)
        assert isinstance(numbers, Numbers)
        assert numbers.scores
        for place, factor, same in ((0, 1.05, 1), (0, 1.2, 0), (3, 1.2, 1)):
            got = [{name: array.copy() for name, array in row.items()} for row in wanted]
            got[0][boxes.name][0, place] *= factor
            assert numbers.agreement(wanted, got) == Agreement(same, 1)

    def test_what_is_no_number_agrees_with_nothing(self) -> None:
        net = Network(1, 8)
        module = net.finish(net.op(top.Softmax(axis=1), net.input))
        wanted = _rows(module, np.eye(8)[:1])
        got = [{name: np.full_like(array, np.nan) for name, array in wanted[0].items()}]
        (found,) = task_metrics_of(module, wanted)
        assert found.agreement(wanted, got) == Agreement(0, 1)
        assert _closeness(found, wanted, got) == -np.inf


class TestCloseness:
    def test_what_is_sure_anyway_does_not_count(self) -> None:
        """-8000 or -6000: nothing is there; 2.5 or 0.5 is a difference of its sigmoids, 0.924 and 0.622."""
        logits = np.full((1, 400, 1), -8000.0)
        logits[0, 7] = 2.5
        found, wanted = _only(_passing(1, 400, 1), logits)
        assert isinstance(found, Presence)
        (name,) = wanted[0]
        other = np.where(logits < 0, -6000.0, logits)
        assert _closeness(found, wanted, [{name: other}]) > 100
        other[0, 7] = 0.5
        assert _closeness(found, wanted, [{name: other}]) == pytest.approx(20 * np.log10(0.924 / 0.302), abs=0.05)

    def test_boxes_of_places_without_anything_hardly_count(self) -> None:
        """Of two places with numbers of 1, one is sure to have something; an error of 0.1 in the other is 1 % of it."""
        net = Network(1, 5, 1)
        boxes = net.op(top.MulConst(const_val=1.0), net.op(top.AddConst(const_val=1000.0), net.input))
        module = net.finish(net.op(top.Sigmoid(), net.input), boxes)
        wanted = _rows(module, np.reshape([30, -30, -30, -30, -30], (1, 5, 1)))
        wanted = [{**wanted[0], boxes.name: np.ones((1, 5, 1), np.float32)}]
        numbers = next(one for one in task_metrics_of(module, wanted) if one.name == boxes.name)
        got = [{name: array.copy() for name, array in wanted[0].items()}]
        got[0][boxes.name][0, 3] = 1.1
        by_hand = 10 * np.log10((1 + 4 * 0.01) / (0.01 * 0.01))
        assert _closeness(numbers, wanted, got) == pytest.approx(by_hand, abs=0.01)
