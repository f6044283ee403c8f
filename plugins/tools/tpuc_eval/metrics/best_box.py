"""How often the best box is right, for pictures with one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpuc_eval.metrics.predictions import detections_of, no_objects
from tpuc_eval.postprocess.boxes import overlaps
from tpuc_eval.protocols import Detections, Metric, Objects


@dataclass(frozen=True)
class BestBox(Metric):
    """The share of images whose highest-scoring box exceeds `score` and overlaps an object by at least `iou`."""

    name = "best-box"
    postprocess = ""
    score: float = 0.5
    iou: float = 0.5

    def refuse(self, truth: Any) -> str:
        return no_objects(self.name, truth)

    def digest(self, prediction: Any, source: str) -> Detections:
        found = detections_of(self.name, prediction, source)
        best = np.argsort(-found.scores, kind="stable")[:1]
        return Detections(found.boxes[best], found.scores[best], found.classes[best])

    def evaluate(
        self, digests: Sequence[Detections], truths: Sequence[Any], classes: Sequence[str]
    ) -> Mapping[str, float]:
        right = sum(self._is_right(found, truth) for found, truth in zip(digests, truths, strict=True))
        return {"best box": right / len(truths)}

    def _is_right(self, found: Detections, truth: Objects) -> bool:
        if not len(found.scores) or found.scores[0] <= self.score:
            return False
        same = truth.classes == found.classes[0]
        return bool((overlaps(found.boxes[0], truth.boxes[same]) >= self.iou).any())
