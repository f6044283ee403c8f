"""Samples that do not show what a network looks for: what counts as a score, who wins, what calibration makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.errors import CalibrationError
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.observers.class_coverage import Score, classes_without_samples, scores_of, wins

from tests.families import each
from tests.passes.graphs import Network


class TestScores:
    def test_outputs_and_what_they_are_put_together_from(self) -> None:
        net = Network(1, 3, 4, 4)
        found = net.op(top.Sigmoid(), net.input)
        classes = net.op(top.Softmax(axis=-3), net.input)
        boxes = net.op(top.Permute(order=(0, 2, 3, 1)), net.op(top.Concat(axis=1), net.input, found, classes))
        module = net.finish(net.op(top.Reshape(shape=(1, 16, 9)), boxes))
        assert scores_of(module) == {found.name: Score(0.5), classes.name: Score(0.5, 1)}

    def test_logarithms(self) -> None:
        net = Network(1, 3, 2)
        module = net.finish(net.op(top.Softmax(axis=1, log=True), net.input))
        ((_, score),) = scores_of(module).items()
        assert wins(np.log([[[0.4], [0.6], [0.0001]]]), score).tolist() == [0, 1, 0]

    def test_one_answer_per_sample_is_none(self) -> None:
        net = Network(4, 3)
        assert (
            scores_of(net.finish(net.op(top.Softmax(axis=1), net.input), net.op(top.Sigmoid(), net.weight(4, 1)))) == {}
        )

    def test_what_is_reckoned_with_further_is_none(self) -> None:
        net = Network(1, 3, 4, 4)
        gate = net.op(top.Mul(), net.input, net.op(top.Sigmoid(), net.input))
        assert (
            scores_of(net.finish(net.op(top.Conv(kernel_shape=(1, 1)), gate, net.weight(2, 3, 1, 1), net.none))) == {}
        )


class TestWins:
    def test_a_sigmoid_wins_above_one_half(self) -> None:
        assert wins(np.array([[0.1, 0.5]], np.float32), Score(0.5)).tolist() == [0]
        assert wins(np.array([[0.51, 0.9]], np.float32), Score(0.5)).tolist() == [1]

    def test_a_class_wins_once_wherever_it_does(self) -> None:
        rows = np.array([[[0.8, 0.1, 0.1], [0.6, 0.4, 0.0], [0.2, 0.1, 0.7], [0.3, 0.4, 0.3]]], np.float32)
        assert wins(rows, Score(0.5, 2)).tolist() == [1, 0, 1]
        assert wins(rows.transpose(0, 2, 1), Score(0.5, 1)).tolist() == [1, 0, 1]


@each(
    ("axis", "won", "count", "sentence"),
    [
        (None, [2], 40, ""),
        (None, [1], 40, "'a' scores above one half in 1 of 40 samples"),
        (None, [0], 16, "'a' scores above one half in none of 16 samples"),
        (None, [0], 15, ""),
        (1, [40, 1, 1], 40, ""),
        (1, [1, 40, 0], 40, "'a' predicts a class other than 1 in 1 of 40 samples"),
        (1, [0, 20, 0], 40, "'a' predicts a class other than 1 in none of 40 samples"),
        (1, [0, 19, 0], 40, ""),
    ],
)
def test_fewer_than_one_in_twenty_is_not_shown(axis: int | None, won: list[int], count: int, sentence: str) -> None:
    assert list(classes_without_samples({"a": Score(0.5, axis)}, {"a": np.array(won)}, count)) == (
        [sentence] if sentence else []
    )


@pytest.fixture
def module() -> Module:
    """Scores what is bright: above one half where nine pixels have a mean above 1."""
    net = Network(1, 1, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(8, 1, 3, 3), net.weight(8))
    bright = net.build.weight("w", np.full((1, 1, 3, 3), 1 / 9, np.float32))
    score = net.op(
        top.Conv(kernel_shape=(3, 3)), net.input, bright, net.build.weight("b", np.full(1, -1.0, np.float32))
    )
    rest = net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 8, 1, 1), net.none)
    return net.finish(net.op(top.Concat(axis=1), net.op(top.Sigmoid(), score), rest))


def images(bright: int, count: int = 40) -> NDArray[np.float32]:
    """The last `bright` of them have something to find."""
    result = np.random.default_rng(3).random((count, 1, 1, 8, 8)).astype(np.float32)
    result[count - bright :] += 1
    return result


def calibrated(module: Module, folder: Path, samples: NDArray[Any], **options: Any) -> tuple[Any, str]:
    """The table, and what was remarked."""
    file = folder / f"{len(list(folder.iterdir()))}.npz"
    np.savez(file, v0=samples)
    remarks: list[str] = []
    table = Session(remark=remarks.append).calibrate(module, dataset=file, options=options)
    return table, " ".join(remarks)


def mean_reach(table: Any) -> float:
    """How far thresholds reach, as a part of what was seen."""
    return float(np.mean([one.threshold / max(-one.minimum, one.maximum) for one in table.entries.values()]))


def test_thresholds_reach_further_where_nothing_is_found_and_that_is_said(module: Module, tmp_path: Path) -> None:
    table, remark = calibrated(module, tmp_path, images(0))
    assert "scores above one half in none of 40 samples: they hardly show what the network looks for" in remark
    assert remark.endswith("add samples that do. Until then thresholds have headroom for values 1.6 times as large.")
    known, nothing = calibrated(module, tmp_path, images(8))
    assert nothing == ""
    assert mean_reach(table) > 1.1 > mean_reach(known)


def test_strict_makes_an_error_of_it(module: Module, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"the samples look wrong: .* none of 40 samples"):
        calibrated(module, tmp_path, images(0), strict=True)


def test_who_gives_the_headroom_gets_it_without_a_remark(module: Module, tmp_path: Path) -> None:
    table, remark = calibrated(module, tmp_path, images(0))
    given, nothing = calibrated(module, tmp_path, images(0), headroom=1.6)
    assert nothing == "" != remark
    assert given.entries == table.entries
    assert mean_reach(calibrated(module, tmp_path, images(0), headroom=2.0)[0]) > mean_reach(table)


def test_a_method_alone_keeps_its_thresholds_unless_headroom_is_asked_for(module: Module, tmp_path: Path) -> None:
    plain, remark = calibrated(module, tmp_path, images(0), tune_num=0, bias_num=0)
    assert "none of 40 samples" in remark
    assert remark.endswith("add samples that do.")
    given, _ = calibrated(module, tmp_path, images(0), tune_num=0, bias_num=0, headroom=1.6)
    known, _ = calibrated(module, tmp_path, images(8), tune_num=0, bias_num=0)
    assert mean_reach(plain) < 1.01 > mean_reach(known)
    ratios = {name: one.threshold / plain.entries[name].threshold for name, one in given.entries.items()}
    (score,) = (one.result.name for one in module.main.operations if isinstance(one.op, top.Sigmoid))
    assert ratios.pop("v0") == 1.0
    assert plain.entries[score].threshold * ratios.pop(score) <= 1.0
    assert list(ratios.values()) == pytest.approx([1.6] * len(ratios))


def test_samples_seen_earlier_count(module: Module, tmp_path: Path) -> None:
    file = str(tmp_path / "statistics")
    _, first = calibrated(module, tmp_path, images(0)[:20], statistics=file)
    _, grown = calibrated(module, tmp_path, images(8)[20:], resume=file)
    assert "none of 20 samples" in first
    assert grown == ""
