"""Average precision as defined by Pascal VOC."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuc_eval.metrics.predictions import detections_of, no_objects
from tpuc_eval.postprocess.boxes import overlaps
from tpuc_eval.protocols import Detections, Metric, Objects

ELEVEN = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class VocAp(Metric):
    """The mean over classes of the area under the precision-recall curve; a box is right from an overlap of `iou`.

    The precision at a recall is the best at that recall or beyond (the development kit of VOC 2010 and later).
    `eleven`: its mean at the recalls 0, 0.1, ..., 1 (VOC 2007). Detections of difficult objects are ignored.
    """

    name = "voc"
    postprocess = ""
    iou: float = 0.5
    eleven: bool = False

    def refuse(self, truth: Any) -> str:
        return no_objects(self.name, truth)

    def digest(self, prediction: Any, source: str) -> Detections:
        return detections_of(self.name, prediction, source)

    def evaluate(
        self, digests: Sequence[Detections], truths: Sequence[Any], classes: Sequence[str]
    ) -> Mapping[str, float]:
        objects: list[Objects] = list(truths)
        present = sorted({int(index) for one in objects for index in one.classes[~one.crowd]})
        found = {index: self._average_precision(index, digests, objects) for index in present}
        mean = float(np.mean(list(found.values()))) if found else math.nan
        names = {index: classes[index] if index < len(classes) else str(index) for index in found}
        per_class = {f"AP {names[index]}": value for index, value in found.items()} if len(found) > 1 else {}
        return {f"mAP{100 * self.iou:.0f}": mean, **per_class}

    def _average_precision(self, index: int, digests: Sequence[Detections], objects: Sequence[Objects]) -> float:
        scores: list[NDArray[np.float64]] = []
        right: list[NDArray[np.int8]] = []
        count = 0
        for seen, real in zip(digests, objects, strict=True):
            mine = seen.classes == index
            order = np.argsort(-seen.scores[mine], kind="stable")
            wanted = real.classes == index
            count += int((~real.crowd[wanted]).sum())
            scores.append(seen.scores[mine][order])
            right.append(self._matched(seen.boxes[mine][order], real.boxes[wanted], real.crowd[wanted]))
        flags = np.concatenate(right)
        flags = flags[np.argsort(-np.concatenate(scores), kind="stable")]
        flags = flags[flags >= 0]
        hits = np.cumsum(flags)
        recall, precision = hits / count, hits / np.arange(1, len(flags) + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        if self.eleven:
            return float(np.mean([best[recall >= level].max(initial=0.0) for level in ELEVEN]))
        return float(np.sum(np.diff(recall, prepend=0.0) * best))

    def _matched(
        self, boxes: NDArray[np.float64], real: NDArray[np.float64], aside: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Return 1 for a box that finds an object not found by a better one, 0 for a wrong one, -1 for an ignored
        one.
        """
        flags, taken = np.zeros(len(boxes), np.int8), np.zeros(len(real), bool)
        for place, box in enumerate(boxes):
            shared = overlaps(box, real)
            best = int(shared.argmax()) if len(real) else -1
            if best < 0 or shared[best] < self.iou:
                continue
            flags[place] = -1 if aside[best] else int(not taken[best])
            taken[best] = True
        return flags
