"""Metrics on cases whose answers are counted by hand."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import TpucError, UsageError, install_command
from tpuc_eval.metrics.auc import Auc, roc_auc
from tpuc_eval.metrics.best_box import BestBox
from tpuc_eval.metrics.coco import NAMES, CocoAp
from tpuc_eval.metrics.topk import TopK
from tpuc_eval.metrics.voc import VocAp
from tpuc_eval.preset_advice import SURE, Found, Trials
from tpuc_eval.protocols import Detections, Metric, Objects

from tests.families import each

BIG = (100.0, 100.0, 200.0, 200.0)  # 10000 pixels: large in COCO's words, which begins at 96 * 96


def judged(metric: Metric, predictions: Sequence[Any], truths: Sequence[Any], classes: Sequence[str] = ()) -> Any:
    """The figures of predictions."""
    return metric.evaluate([metric.digest(one, "net.onnx") for one in predictions], truths, classes)


def test_the_probability_of_a_label_is_that_of_probabilities_and_logits() -> None:
    logits = np.array([2.0, -1.0, 0.5])
    shares = np.exp(logits) / np.exp(logits).sum()
    expected = math.log(shares[2] + 1e-3)
    assert TopK().fit(logits, 2) == pytest.approx(expected) == TopK().fit(shares, 2)
    assert Auc().fit(logits, 2) is None


def test_a_preset_is_better_by_paired_samples() -> None:
    random = np.random.default_rng(3)
    now, noise = random.normal(-2, 1, 40), random.normal(0, 0.5, 40)
    rows = zip(now, now + noise, now + noise + 0.4, strict=True)
    trials = Trials([Found(right=(True, True, True), fits=row) for row in rows])
    assert trials.gain(0) < SURE <= trials.gain(1)
    counted = Trials([Found(right=(place < 5, place < 9), fits=(math.nan,) * 2) for place in range(16)])
    assert counted.gain(0) == SURE


def found(*rows: tuple[tuple[float, ...], float, int]) -> Detections:
    """Boxes with scores and classes."""
    return Detections(
        np.array([box for box, _, _ in rows], np.float64).reshape(-1, 4),
        np.array([score for _, score, _ in rows], np.float64),
        np.array([index for _, _, index in rows], np.int64),
    )


def objects(*rows: tuple[tuple[float, ...], int], crowd: bool = False) -> Objects:
    """Boxes with classes; areas are those of the boxes."""
    boxes = np.array([box for box, _ in rows], np.float64).reshape(-1, 4)
    sizes = boxes[:, 2:] - boxes[:, :2]
    return Objects(boxes, np.array([one for _, one in rows], np.int64), sizes.prod(axis=1), np.full(len(rows), crowd))


# Top-k


def test_top_k_counts_labels_among_the_best() -> None:
    scores = [[0.1, 0.5, 0.2, 0.15, 0.03, 0.02], [0.3, 0.1, 0.2, 0.15, 0.05, 0.2], [0, 1, 2, 3, 4, 5]]
    predictions = [np.array([row]) for row in scores]
    # first of row 0; second of row 1 (0.2 twice, the lower index first); last of row 2
    assert judged(TopK(), predictions, [1, 2, 0]) == {"top-1": 1 / 3, "top-5": 2 / 3}
    assert judged(TopK(k=(2, 6)), predictions, [1, 2, 0]) == {"top-2": 2 / 3}


def test_equal_scores_count_for_the_lower_index() -> None:
    assert judged(TopK(k=(1,)), [np.zeros(10), np.zeros(10)], [0, 1]) == {"top-1": 0.5}


def test_top_k_agreement_is_about_the_first_class() -> None:
    metric = TopK()
    one = [metric.digest(np.array(row), "") for row in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 2, 1])]
    other = [metric.digest(np.array(row), "") for row in ([2, 1, 0], [0, 1, 1], [0, 3, 1], [0, 2, 1])]
    assert metric.agreement(one, other) == {"same top-1": 0.5}


@each(
    ("predictions", "truths", "sentence"),
    [
        ([np.zeros(3)], [3], "a label is 3, but the network has 3 classes; correct --label-file"),
        ([np.zeros(3)], [-1], "a label is -1, but the network has 3 classes"),
        ([found()], [0], "'top-k' evaluates scores, but the post-processing returns boxes; use --metric coco"),
        ([np.array([1.0, np.nan])], [0], "net.onnx: returns NaN instead of scores"),
    ],
)
def test_top_k_refuses(predictions: Sequence[Any], truths: Sequence[Any], sentence: str) -> None:
    with pytest.raises(TpucError, match=sentence):
        judged(TopK(), predictions, truths)


def test_top_k_wants_whole_numbers_from_one() -> None:
    with pytest.raises(UsageError, match=r"option k is \[0, 5\]; give whole numbers from 1"):
        TopK(k=(0, 5))


# AUC


@each(
    ("scores", "labels", "area"),
    [
        ([1, 2, 3, 4], [0, 0, 1, 1], 1.0),
        ([4, 3, 2, 1], [0, 0, 1, 1], 0.0),
        ([1, 1, 1, 1], [0, 1, 0, 1], 0.5),
        ([1, 2, 2, 3], [0, 0, 1, 1], 0.875),  # of four pairs three are right and one is a tie
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
    ],
)
def test_auc_by_hand(scores: list[float], labels: list[int], area: float) -> None:
    assert judged(Auc(), [np.array([[one]]) for one in scores], labels) == {"AUC": area}


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    up = [score for score, positive in pairs if positive]
    down = [score for score, positive in pairs if not positive]
    if not up or not down:
        return
    won = sum(Fraction(2 * (a > b) + (a == b), 2) for a in up for b in down)
    scores, positive = np.array([score for score, _ in pairs]), np.array([flag for _, flag in pairs])
    assert roc_auc(scores, positive) == float(won / (len(up) * len(down)))


def test_auc_of_two_classes_takes_the_lead_of_the_second() -> None:
    # as probabilities the second class has 0.55, 0.5 and 0.27: the first positive wins, the second loses
    logits = [np.array([0.8, 1.0]), np.array([3.0, 3.0]), np.array([2.0, 1.0])]
    assert judged(Auc(), logits, [1, 0, 1]) == {"AUC": 0.5}


@each(
    ("predictions", "truths", "sentence"),
    [
        ([np.zeros(1)] * 2, [1, 1], "needs samples of both classes, but all 2 have label 1"),
        ([np.zeros(1)] * 2, [0, 2], "needs labels 0 and 1, not 2"),
        ([np.zeros(10)], [0], "10 scores per sample, but metric 'auc' needs one"),
    ],
)
def test_auc_refuses(predictions: Sequence[Any], truths: Sequence[Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        judged(Auc(), predictions, truths)


# Pascal VOC

OTHER = (300.0, 300.0, 420.0, 420.0)
NOWHERE = (500.0, 500.0, 600.0, 600.0)


def test_voc_area_and_eleven_recalls() -> None:
    """Right, wrong, right for two objects: precision 1 up to recall 1/2, then 2/3."""
    seen = [found((BIG, 0.9, 0), (NOWHERE, 0.8, 0), (OTHER, 0.7, 0))]
    truths = [objects((BIG, 0), (OTHER, 0))]
    assert judged(VocAp(), seen, truths) == {"mAP50": pytest.approx(0.5 + 0.5 * 2 / 3, abs=1e-12)}
    assert judged(VocAp(eleven=True), seen, truths) == {"mAP50": pytest.approx((6 + 5 * 2 / 3) / 11, abs=1e-12)}


def test_voc_the_second_box_of_an_object_is_wrong_and_one_of_a_difficult_object_is_nothing() -> None:
    seen = [found((BIG, 0.9, 0), (BIG, 0.8, 0)), found((OTHER, 0.7, 0))]
    assert judged(VocAp(), seen, [objects((BIG, 0)), objects((OTHER, 0))]) == {
        "mAP50": pytest.approx(0.5 + 0.5 * 2 / 3, abs=1e-12)
    }
    assert judged(VocAp(), [*seen[1:], found((BIG, 0.1, 0))], [objects((OTHER, 0), crowd=True), objects((BIG, 0))]) == {
        "mAP50": 1.0
    }


def test_voc_overlap_and_classes() -> None:
    moved = (110.0, 100.0, 210.0, 200.0)  # it shares 9000 of 11000 pixels, 0.818
    seen, truths = [found((moved, 0.9, 0), (OTHER, 0.9, 1))], [objects((BIG, 0), (OTHER, 1))]
    assert judged(VocAp(iou=0.8), seen, truths, ["cat", "dog"]) == {"mAP80": 1.0, "AP cat": 1.0, "AP dog": 1.0}
    assert judged(VocAp(iou=0.85), seen, truths, ["cat"]) == {"mAP85": 0.5, "AP cat": 0.0, "AP 1": 1.0}


# COCO


def test_coco_box_moved_by_a_tenth() -> None:
    """It shares 9000 of 11000 pixels, 0.818: right at the thresholds 0.5 to 0.8, seven of ten."""
    pytest.importorskip("pycocotools")
    moved = (110.0, 100.0, 210.0, 200.0)
    figures = judged(CocoAp(), [found((moved, 0.9, 0))], [objects((BIG, 0))], ["cat"])
    assert tuple(figures) == NAMES
    none = ("AP small", "AP medium", "AR small", "AR medium")
    assert all(math.isnan(figures[name]) for name in none)
    for name in ("AP", "AP large", "AR1", "AR10", "AR100", "AR large"):
        assert figures[name] == pytest.approx(0.7, abs=1e-12)  # a mean of ten ones and zeros
    assert figures["AP50"] == figures["AP75"] == pytest.approx(1.0, abs=1e-12)


def test_coco_one_of_two_objects() -> None:
    """Precision 1 up to recall 0.5: 51 of the 101 recall levels."""
    pytest.importorskip("pycocotools")
    other = (300.0, 300.0, 420.0, 420.0)
    figures = judged(CocoAp(), [found((BIG, 0.9, 0))], [objects((BIG, 0), (other, 0))])
    assert figures["AP"] == pytest.approx(51 / 101, abs=1e-12)  # a mean of 101 numbers, rounded
    assert figures["AR1"] == figures["AR100"] == pytest.approx(0.5, abs=1e-12)


def test_coco_false_box_with_a_higher_score_halves_precision() -> None:
    pytest.importorskip("pycocotools")
    wrong = (400.0, 400.0, 500.0, 500.0)
    figures = judged(CocoAp(), [found((wrong, 0.9, 0), (BIG, 0.8, 0))], [objects((BIG, 0))])
    assert figures["AP50"] == pytest.approx(0.5, abs=1e-12)
    assert figures["AR1"] == 0.0  # the best box alone is wrong
    assert figures["AR10"] == pytest.approx(1.0, abs=1e-12)


def test_coco_is_the_mean_over_classes_in_the_images() -> None:
    """Class 0 is found, class 1 is taken for class 2, which is in no image and therefore does not count."""
    pytest.importorskip("pycocotools")
    other = (300.0, 300.0, 420.0, 420.0)
    truths = [objects((BIG, 0)), objects((other, 1))]
    figures = judged(CocoAp(), [found((BIG, 0.9, 0)), found((other, 0.9, 2))], truths, ["cat", "dog", "fox"])
    assert figures["AP"] == pytest.approx(0.5, abs=1e-12)


def test_coco_boxes_in_a_crowd_are_neither_right_nor_wrong() -> None:
    pytest.importorskip("pycocotools")
    crowd = objects(((0.0, 0.0, 400.0, 400.0), 0), crowd=True)
    figures = judged(
        CocoAp(),
        [found((BIG, 0.9, 0)), found((BIG, 0.8, 0))],
        [crowd, objects((BIG, 0))],
    )
    assert figures["AP"] == pytest.approx(1.0, abs=1e-12)


def test_coco_nothing_found_is_zero() -> None:
    pytest.importorskip("pycocotools")
    figures = judged(CocoAp(), [found()], [objects((BIG, 0))])
    assert figures["AP"] == figures["AR100"] == 0.0


@each(
    ("prediction", "truth", "sentence"),
    [
        (np.zeros(3), objects((BIG, 0)), "'coco' evaluates boxes, but the post-processing returns none"),
        (found((BIG, math.nan, 0)), objects((BIG, 0)), "net.onnx: boxes or scores are not finite"),
    ],
)
def test_coco_refuses(prediction: Any, truth: Any, sentence: str) -> None:
    with pytest.raises(TpucError, match=sentence):
        judged(CocoAp(), [prediction], [truth])


def test_coco_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert CocoAp().refuse(objects()) == f"metric 'coco' needs the package pycocotools: {install_command('eval')}."


# Best box


def test_best_box_needs_score_and_overlap() -> None:
    half = (100.0, 100.0, 200.0, 150.0)  # IoU with BIG: exactly 0.5
    cases = [
        found((half, 0.6, 0)),  # right
        found((half, 0.5, 0)),  # not more than 0.5
        found((BIG, 0.6, 0), ((0.0, 0.0, 10.0, 10.0), 0.7, 0)),  # the best one is elsewhere
        found(),
    ]
    assert judged(BestBox(), cases, [objects((BIG, 0))] * 4) == {"best box": 0.25}
    assert judged(BestBox(iou=0.51), cases, [objects((BIG, 0))] * 4) == {"best box": 0.0}


# Truths


def test_metrics_refuse_truths_of_another_kind() -> None:
    for one in (TopK(), Auc()):
        said = f"metric '{one.name}' needs one class per sample, but the data has annotated boxes; use --metric coco."
        assert (one.refuse(1), one.refuse(objects())) == ("", said)
    others = [BestBox(), *([CocoAp()] if importlib.util.find_spec("pycocotools") else [])]
    for other in others:
        said = f"metric '{other.name}' needs annotated boxes, but the data has class labels; use --metric top-k."
        assert (other.refuse(objects()), other.refuse(1)) == ("", said)
