"""Headroom above the largest outputs: which values get it, and how much."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.range_margins import outermost, scores_of, with_output_headroom, with_whole_scores
from tpuc_quantize.tables.table import TensorThreshold

from tests.families import each
from tests.passes.graphs import Network


def of(entries: dict[str, TensorThreshold]) -> Candidate:
    return Candidate("any", entries)


def test_outputs_and_what_they_are_put_together_from() -> None:
    net = Network(1, 3, 4, 4)
    boxes = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 3, 1, 1), net.none)
    classes = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 3, 1, 1), net.none)
    scores = net.op(top.Sigmoid(), classes)
    six = net.op(top.Relu(relu_limit=6.0), net.input)
    bounded = net.op(top.Concat(axis=1), scores, six)
    mixed = net.op(
        top.Permute(order=(0, 2, 3, 1)), net.op(top.Concat(axis=1), boxes, scores, net.input, net.weight(1, 3, 4, 4))
    )
    logits = net.op(top.AddConst(const_val=1.0), boxes)
    module = net.finish(bounded, mixed, net.op(top.Softmax(axis=1), logits))
    (joined,) = (one.operands[0].name for one in module.main.operations if one.results and one.result is mixed)
    assert outermost(module) == {boxes.name, scores.name, six.name, bounded.name, joined, mixed.name, logits.name}


@each(
    ("threshold", "expected"),
    [(8.0, 8.4), (6.0, 6.3), (8.2, 8.4), (8.4, 8.4), (10.0, 10.0), (0.0, 0.0)],
)
def test_thresholds_get_room_up_to_that_above_what_was_seen(threshold: float, expected: float) -> None:
    net = Network(1, 3)
    answer = net.op(top.AddConst(const_val=1.0), net.op(top.AddConst(const_val=1.0), net.input))
    entries = {f"v{n}": TensorThreshold(threshold, -8.0, 3.0) for n in range(3)}
    found = dict(with_output_headroom(of(entries), net.finish(answer)).entries)
    assert found.pop(answer.name).threshold == pytest.approx(expected, rel=1e-12)
    assert found == {name: entries[name] for name in found}


@each(("seen", "expected"), [(0.9, 0.945), (0.99, 1.0), (1.0, 1.0)])
def test_there_is_no_room_beyond_a_bound(seen: float, expected: float) -> None:
    net = Network(1, 3)
    score = net.op(top.Sigmoid(), net.input)
    found = with_output_headroom(of({score.name: TensorThreshold(seen, 0.0, seen)}), net.finish(score)).entries
    assert found[score.name].threshold == pytest.approx(expected, rel=1e-12)


def test_tuned_tables_have_it_and_those_of_a_method_alone_do_not(tmp_path: Path) -> None:
    net = Network(1, 3, 8, 8)
    module = net.finish(net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(8, 3, 3, 3), net.weight(8)))
    images = np.random.default_rng(1).standard_normal((20, 1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", v0=images)
    name = module.main.outputs[0].name
    alone = Session().calibrate(module, dataset=tmp_path / "x.npz", method="max", options={"bias_num": 0})
    tuned = Session().calibrate(module, dataset=tmp_path / "x.npz", options={"bias_num": 0})
    assert alone.entries[name].threshold == max(-alone.entries[name].minimum, alone.entries[name].maximum)
    untuned = Session().calibrate(module, dataset=tmp_path / "x.npz", options={"tune_num": 0, "bias_num": 0})
    assert tuned.entries[name].threshold > untuned.entries[name].threshold


def test_what_final_sigmoids_take_keeps_its_largest_value() -> None:
    """Scores that are cut off are equal, and the best of them is any. What is far below zero may be cut off."""
    net = Network(1, 8, 4)
    logits = net.op(top.AddConst(const_val=1.0), net.input)
    turned = net.op(top.Permute(order=(0, 2, 1)), logits)
    module = net.finish(net.op(top.Sigmoid(), turned))
    entries = {value.name: TensorThreshold(2.0, -30.0, 4.0) for value in (net.input, logits, turned)}
    found = with_output_headroom(of(entries), module).entries
    assert [found[value.name].threshold for value in (net.input, logits, turned)] == pytest.approx([2.0, 4.2, 4.2])
    assert with_output_headroom(of(entries), module, 1.6).entries[turned.name].threshold == pytest.approx(6.4)


def test_scores_keep_all_of_their_range() -> None:
    net = Network(1, 8, 4)
    scores = net.op(top.Sigmoid(), net.input)
    both = net.op(top.Concat(axis=1), scores, net.op(top.Softmax(axis=2), net.input))
    boxes = net.op(top.Sigmoid(scale=2.0, bias=-0.5), net.input)
    module = net.finish(both, boxes)
    assert scores_of(module) >= {scores.name, both.name}
    assert boxes.name not in scores_of(module)
    entries = {value.name: TensorThreshold(0.3, 0.0, 0.3) for value in (scores, both, boxes)}
    found = with_whole_scores(of(entries), module).entries
    assert [found[value.name].threshold for value in (scores, both, boxes)] == [1.0, 1.0, 0.3]


def test_normalized_rows_are_clipped_at_most_halfway() -> None:
    net = Network(2, 8)
    rows = net.op(top.LayerNorm(axis=1, eps=1e-5), net.input, net.weight(8), net.weight(8))
    module = net.finish(net.op(top.AddConst(const_val=1.0), net.op(top.Relu(), rows)))
    entries = {name: TensorThreshold(2.0, -32.0, 4.0) for name in ("v0", rows.name)}
    found = with_output_headroom(of(entries), module).entries
    assert [found[name].threshold for name in entries] == pytest.approx([2.0, 8.0])
    wide = {rows.name: TensorThreshold(40.0, -32.0, 4.0)}
    assert with_output_headroom(of(wide), module).entries[rows.name].threshold == pytest.approx(40.0)
