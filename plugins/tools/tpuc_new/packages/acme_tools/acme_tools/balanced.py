"""A metric: accuracy in which every class counts as much as any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import UsageError
from tpuc_eval.protocols import Metric


@dataclass(frozen=True)
class Balanced(Metric):
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
