"""The twelve numbers of COCO, by pycocotools (extra `tpuc[eval]`)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import install_command

from tpuc_eval.metrics.predictions import detections_of, no_objects
from tpuc_eval.protocols import Detections, Metric, Objects

NAMES = (
    *("AP", "AP50", "AP75", "AP small", "AP medium", "AP large"),
    *("AR1", "AR10", "AR100", "AR small", "AR medium", "AR large"),
)


@dataclass(frozen=True)
class CocoAp(Metric):
    """Average precision and recall of boxes, over the classes that are in the images."""

    name = "coco"
    postprocess = ""

    def refuse(self, truth: Any) -> str:
        if importlib.util.find_spec("pycocotools") is None:
            return f"metric 'coco' needs the package pycocotools: {install_command('eval')}."
        return no_objects(self.name, truth)

    def digest(self, prediction: Any, source: str) -> Detections:
        return detections_of(self.name, prediction, source)

    def evaluate(
        self, digests: Sequence[Detections], truths: Sequence[Any], classes: Sequence[str]
    ) -> Mapping[str, float]:
        objects: list[Objects] = list(truths)
        present = {int(index) for one in objects for index in one.classes}
        found = {int(index) for one in digests for index in one.classes}
        categories = sorted(present | found | set(range(len(classes))))
        pycocotools: Any = importlib.import_module("pycocotools.coco")
        evaluating: Any = importlib.import_module("pycocotools.cocoeval")
        with contextlib.redirect_stdout(io.StringIO()):
            real, seen = pycocotools.COCO(), pycocotools.COCO()
            real.dataset = _dataset(len(truths), categories, _real(objects))
            seen.dataset = _dataset(len(truths), categories, _seen(digests))
            real.createIndex()
            seen.createIndex()
            evaluation = evaluating.COCOeval(real, seen, "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        # where there is nothing to find, pycocotools says -1
        values = (float(value) for value in evaluation.stats)
        return {name: value if value >= 0 else math.nan for name, value in zip(NAMES, values, strict=True)}


def _dataset(images: int, categories: Sequence[int], annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Identifiers count from 1: pycocotools takes annotation 0 for none.
    return {
        "images": [{"id": image + 1} for image in range(images)],
        "categories": [{"id": index + 1} for index in categories],
        "annotations": [{**one, "id": number} for number, one in enumerate(annotations, 1)],
    }


def _real(objects: Sequence[Objects]) -> list[dict[str, Any]]:
    return [
        {
            "image_id": image,
            "category_id": int(one.classes[index]) + 1,
            "bbox": _corner_and_size(one.boxes[index]),
            "area": float(one.areas[index]),
            "iscrowd": int(one.crowd[index]),
        }
        for image, one in enumerate(objects, 1)
        for index in range(len(one.classes))
    ]


def _seen(digests: Sequence[Detections]) -> list[dict[str, Any]]:
    return [
        {
            "image_id": image,
            "category_id": int(one.classes[index]) + 1,
            "bbox": _corner_and_size(one.boxes[index]),
            "area": float(np.prod(one.boxes[index, 2:] - one.boxes[index, :2])),
            "score": float(one.scores[index]),
            "iscrowd": 0,
        }
        for image, one in enumerate(digests, 1)
        for index in range(len(one.classes))
    ]


def _corner_and_size(box: Any) -> list[float]:
    left, top, right, bottom = (float(value) for value in box)
    return [left, top, right - left, bottom - top]
