"""COCO's twelve metrics, by pycocotools (extra `tpuc[eval]`)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tpuc.api import UsageError, install_command

from tpuc_eval.metrics.predictions import detections_of, no_objects
from tpuc_eval.protocols import Detections, Mask, Metric, Objects

NAMES = (
    *("AP", "AP50", "AP75", "AP small", "AP medium", "AP large"),
    *("AR1", "AR10", "AR100", "AR small", "AR medium", "AR large"),
)


POINT_NAMES = ("AP", "AP50", "AP75", "AP medium", "AP large", "AR", "AR50", "AR75", "AR medium", "AR large")
KINDS = {"boxes": "bbox", "masks": "segm", "points": "keypoints"}
"""What can be compared, with pycocotools' name for it."""
_NEEDED = {"boxes": "bbox", "masks": "segmentation", "points": "keypoints"}


@dataclass(frozen=True)
class CocoAp(Metric):
    """Average precision and recall of boxes, over the classes in the images; `of` may also be `masks`, or `points`,
    which are compared by COCO's OKS.
    """

    name = "coco"
    postprocess = ""
    of: str = "boxes"

    def refuse(self, truth: Any) -> str:
        if self.of not in KINDS:
            return f"metric 'coco': of={self.of} is unknown; choose one of {', '.join(KINDS)}."
        if importlib.util.find_spec("pycocotools") is None:
            return f"metric 'coco' needs the package pycocotools: {install_command('eval')}."
        if refusal := no_objects(self.name, truth):
            return refusal
        return "" if not len(truth.classes) or self._has(truth.outlines, truth.points) else self._lacking()

    def _has(self, masks: Any, points: Any) -> bool:
        return {"boxes": True, "masks": masks is not None, "points": points is not None}[self.of]

    def _lacking(self) -> str:
        return (
            f"metric 'coco{{of={self.of}}}': not every object of an image has '{_NEEDED[self.of]}' in the annotations; "
            "leave out 'of'."
        )

    def digest(self, prediction: Any, source: str) -> Detections:
        found = detections_of(self.name, prediction, source)
        if not self._has(found.masks, found.points):
            raise UsageError(
                f"metric 'coco{{of={self.of}}}': the post-processing returns no {self.of}; leave out 'of', or choose "
                "another --postprocess."
            )
        return found if self.of == "masks" else replace(found, masks=None)

    def evaluate(
        self, digests: Sequence[Detections], truths: Sequence[Any], classes: Sequence[str]
    ) -> Mapping[str, float]:
        objects: list[Objects] = list(truths)
        present = {int(index) for one in objects for index in one.classes}
        found = {int(index) for one in digests for index in one.classes}
        categories = sorted(present | found | set(range(len(classes))))
        pycocotools: Any = importlib.import_module("pycocotools.coco")
        evaluating: Any = importlib.import_module("pycocotools.cocoeval")
        if not all(self._has(one.outlines, one.points) or not len(one.classes) for one in objects):
            raise UsageError(self._lacking())
        with contextlib.redirect_stdout(io.StringIO()):
            real, seen = pycocotools.COCO(), pycocotools.COCO()
            sizes = [other.size if any(other.size) else one.size for one, other in zip(digests, objects, strict=True)]
            real.dataset = _dataset(sizes, categories, _real(objects))
            seen.dataset = _dataset(sizes, categories, _seen(digests))
            real.createIndex()
            seen.createIndex()
            evaluation = evaluating.COCOeval(real, seen, KINDS[self.of])
            if self.of == "points":
                evaluation.params.kpt_oks_sigmas = _sigmas(evaluation.params.kpt_oks_sigmas, objects)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        # where there is nothing to find, pycocotools says -1
        values = (float(value) for value in evaluation.stats)
        names = POINT_NAMES if self.of == "points" else NAMES
        return {name: value if value >= 0 else math.nan for name, value in zip(names, values, strict=True)}


def _sigmas(usual: Any, objects: Sequence[Objects]) -> Any:
    """Return the tolerance of each keypoint: COCO's for its 17, equal ones for any other number."""
    count = next((one.points.shape[1] for one in objects if one.points is not None), len(usual))
    return usual if count == len(usual) else np.full(count, 1 / count)


def _dataset(
    sizes: Sequence[tuple[int, int]], categories: Sequence[int], annotations: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    # Identifiers count from 1: pycocotools takes annotation 0 for none.
    return {
        "images": [{"id": image, "width": width, "height": height} for image, (width, height) in enumerate(sizes, 1)],
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
            **({} if one.outlines is None else {"segmentation": one.outlines[index]}),
            **({} if one.points is None else _labeled(one.points[index])),
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
            "area": _area(one, index),
            "score": float(one.scores[index]),
            "iscrowd": 0,
            **({} if one.masks is None else {"segmentation": _run_lengths(one.masks[index], one.size)}),
            **({} if one.points is None else {"keypoints": one.points[index].reshape(-1).tolist()}),
        }
        for image, one in enumerate(digests, 1)
        for index in range(len(one.classes))
    ]


def _labeled(points: Any) -> dict[str, Any]:
    return {"keypoints": points.reshape(-1).tolist(), "num_keypoints": int((points[:, 2] > 0).sum())}


def _area(found: Detections, index: int) -> float:
    """Return the area of the mask, of the points' bounding box, or of the box."""
    if found.masks is not None:
        return float(found.masks[index].pixels.sum())
    extent = np.ptp(found.points[index, :, :2], axis=0) if found.points is not None else None
    return float(np.prod(found.boxes[index, 2:] - found.boxes[index, :2] if extent is None else extent))


def _run_lengths(mask: Mask, size: tuple[int, int]) -> Any:
    return importlib.import_module("pycocotools.mask").encode(np.asfortranarray(mask.whole(*size).astype(np.uint8)))


def _corner_and_size(box: Any) -> list[float]:
    left, top, right, bottom = (float(value) for value in box)
    return [left, top, right - left, bottom - top]
