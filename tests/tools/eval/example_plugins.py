"""A metric and a post-processing as somebody else would write them; the how-to page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import UsageError
from tpuc.api.evaluation import Array
from tpuc_eval.postprocess.scores import Scores
from tpuc_eval.protocols import Metric, Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail
from tpuc_ops import top


@dataclass(frozen=True)
class BalancedAccuracy(Metric):
    """The mean over the classes of how often each is found; `least` leaves out classes with fewer samples."""

    name = "balanced"
    postprocess = "scores"
    least: int = 1

    def digest(self, prediction: Any, source: str) -> int:
        return int(np.argmax(prediction))

    def evaluate(self, digests: Sequence[int], truths: Sequence[int], classes: Sequence[str]) -> Mapping[str, float]:
        labels = np.array(truths)
        right = np.array(digests) == labels
        shares = [
            float(right[labels == label].mean())
            for label, count in zip(*np.unique(labels, return_counts=True), strict=True)
            if count >= self.least
        ]
        if not shares:
            raise UsageError(f"metric 'balanced': no class has {self.least} samples; lower its option least.")
        return {"balanced accuracy": float(np.mean(shares))}


@dataclass(frozen=True)
class Yes(Postprocess):
    """Networks with one output, the probability of class 1."""

    name = "yes"

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        (probability,) = (array.reshape(-1)[0] for array in outputs.values())
        return np.array([1 - probability, probability])

    def append(self, tail: Tail) -> Postprocess:
        (probability,) = tail.outputs
        other = tail(top.SubConst(const_val=1.0, is_reverse=True), probability)
        tail.finish(tail.concat(1, other, probability))
        return Scores()
