"""The area under the ROC curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError

from tpuc_eval.metrics.predictions import no_label, scores_of
from tpuc_eval.protocols import Metric


def roc_auc(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Return the probability that a positive sample scores higher than a negative one; ties count half.

    Pairs are counted in integers, so only the final division rounds.
    """
    _, place = np.unique(scores, return_inverse=True)
    levels = int(place.max()) + 1
    up = np.bincount(place[positive], minlength=levels)
    down = np.bincount(place[~positive], minlength=levels)
    below = np.cumsum(down) - down
    twice = int((up * (2 * below + down)).sum())
    return twice / (2 * int(up.sum()) * int(down.sum()))


@dataclass(frozen=True)
class Auc(Metric):
    """Label 1 is positive, 0 negative. For networks with two outputs, the score is the second minus the first."""

    name = "auc"
    postprocess = "scores"

    def refuse(self, truth: Any) -> str:
        return no_label(self.name, truth)

    def digest(self, prediction: Any, source: str) -> float:
        scores = scores_of(self.name, prediction, source)
        if scores.size > 2:
            raise UsageError(
                f"{source}: {scores.size} scores per sample, but metric 'auc' needs one, or one for each of two "
                "classes; choose another --postprocess or --metric."
            )
        return float(scores[-1] - scores[0]) if scores.size == 2 else float(scores[0])

    def evaluate(self, digests: Sequence[float], truths: Sequence[Any], classes: Sequence[str]) -> Mapping[str, float]:
        wrong = next((truth for truth in truths if truth not in (0, 1)), None)
        if wrong is not None:
            raise UsageError(f"metric 'auc' needs labels 0 and 1, not {wrong!r}; correct the labels.")
        positive = np.array(truths, np.bool_)
        if positive.all() or not positive.any():
            raise UsageError(
                f"metric 'auc' needs samples of both classes, but all {len(truths)} have label {int(positive[0])}; "
                "raise --count, or add samples of the other class."
            )
        return {"AUC": roc_auc(np.array(digests, np.float64), positive)}
