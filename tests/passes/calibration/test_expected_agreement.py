"""Margins of many samples and the noise of a few say how many predictions agree."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_accuracy.analysis.expected_agreement import expected_agreement
from tpuc_ops import top
from tpuc_quantize.metrics.agreement import Classes, Numbers, TaskMetric
from tpuc_quantize.metrics.output_heads import task_metrics_of

from tests.passes.graphs import Network

CLASSES = 5


def metric(outputs: list[dict[str, NDArray[np.float32]]]) -> TaskMetric:
    net = Network(1, CLASSES)
    (found,) = task_metrics_of(net.finish(net.op(top.Softmax(axis=1), net.input)), outputs)
    return found


def outputs(logits: NDArray[np.float64]) -> list[dict[str, NDArray[np.float32]]]:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return [{"v1": one[None].astype(np.float32)} for one in powers / powers.sum(1, keepdims=True)]


@pytest.mark.parametrize(("noise", "tolerance"), [(0.05, 0.01), (0.3, 0.02), (0.8, 0.07)])
def test_it_is_what_is_counted_on_many_samples(noise: float, tolerance: float) -> None:
    """Where a quarter of the predictions is lost, wrong classes gain by being many, which it does not know."""
    random = np.random.default_rng(45)
    logits = random.normal(0, 2, (2000, CLASSES))
    changed = logits + random.normal(0, noise, logits.shape)
    counted = float(np.mean(logits.argmax(1) == changed.argmax(1)))
    exact, got = outputs(logits), outputs(changed)
    shares = list[float]()
    for first in range(0, 400, 40):
        found = expected_agreement(metric(exact), exact[first : first + 40], got[first : first + 40], exact[400:])
        assert found is not None
        share, total = found
        assert total == 1640
        shares.append(share)
    assert np.mean(shares) == pytest.approx(counted, abs=tolerance)
    assert np.std(shares) < 0.02


def test_equal_networks_agree() -> None:
    exact = outputs(np.random.default_rng(1).normal(0, 2, (30, CLASSES)))
    assert expected_agreement(metric(exact), exact[:20], exact[:20], exact[20:]) == (1.0, 30)


def test_there_is_none_without_classes_or_with_too_few_samples() -> None:
    exact = outputs(np.random.default_rng(1).normal(0, 2, (30, CLASSES)))
    found = metric(exact)
    assert isinstance(found, Classes)
    assert expected_agreement(found, exact[:7], exact[:7], exact[20:]) is None
    assert expected_agreement(found, exact[:20], exact[:20], []) is None
    assert expected_agreement(Numbers(found.part), exact[:20], exact[:20], exact[20:]) is None
