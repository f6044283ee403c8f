"""Top-k accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import UsageError
from tpuc_ops import elementary

from tpuc_eval.metrics.predictions import no_label, scores_of
from tpuc_eval.protocols import Metric

FLOOR = 1e-3
"""Added to a probability before its logarithm: what is less probable is as wrong."""
SUM_ERROR = 1e-2
"""Distance from 1 up to which a sum of scores is one of probabilities."""
Ranked: TypeAlias = tuple[int, tuple[int, ...]]
"""The number of classes, and the first of them, best first."""


@dataclass(frozen=True)
class TopK(Metric):
    """Top-1 and top-k accuracy; of classes with equal scores, the lower index comes first. If a network has at most k
    classes, top-k is meaningless and omitted.
    """

    name = "top-k"
    postprocess = "scores"
    k: tuple[int, ...] = (1, 5)

    def __post_init__(self) -> None:
        if not self.k or min(self.k) < 1:
            raise UsageError(f"metric 'top-k': option k is {list(self.k)}; give whole numbers from 1, as k=[1,5].")

    def refuse(self, truth: Any) -> str:
        return no_label(self.name, truth)

    def digest(self, prediction: Any, source: str) -> Ranked:
        scores = scores_of(self.name, prediction, source)
        best = np.argsort(-scores, kind="stable")[: max(self.k)]
        return scores.size, tuple(int(index) for index in best)

    def evaluate(self, digests: Sequence[Ranked], truths: Sequence[Any], classes: Sequence[str]) -> Mapping[str, float]:
        labels: list[int] = list(truths)
        fewest = min(count for count, _ in digests)
        wrong = next((label for label in labels if not 0 <= label < fewest), None)
        if wrong is not None:
            raise UsageError(
                f"a label is {wrong}, but the network has {fewest} classes; correct --label-file, the folders or "
                "--label-offset."
            )
        return {
            f"top-{k}": sum(label in best[:k] for (_, best), label in zip(digests, labels, strict=True)) / len(labels)
            for k in self.k
            if k == 1 or k < fewest
        }

    def is_right(self, digest: Ranked, truth: Any) -> bool:
        return digest[1][0] == truth

    def fit(self, prediction: Any, truth: Any) -> float | None:
        scores = scores_of(self.name, prediction, "")
        if (scores < 0).any() or abs(scores.sum() - 1) > SUM_ERROR:
            scores = np.exp(scores - scores.max())
        return float(elementary.log(scores[truth] / scores.sum() + FLOOR))

    def classes_of(self, digest: Ranked) -> int:
        return digest[0]

    def agreement(self, digests: Sequence[Ranked], others: Sequence[Ranked]) -> Mapping[str, float]:
        same = sum(one[0] == other[0] for (_, one), (_, other) in zip(digests, others, strict=True))
        return {"same top-1": same / len(digests)}
