"""Images with objects in COCO format: a folder and an annotation file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.annotated import AnnotatedImages, ObjectRow, numbered, stacked
from tpuc_eval.datasets.images import images_in
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples, Objects


@dataclass(frozen=True)
class Coco(DatasetType):
    """The network's classes are the categories in the order of their ids, or of the names in --label-file.

    `ids`: class indices are the category ids.
    """

    name = "coco"
    metric = "coco"
    ids: bool = False

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        if request.annotation is None:
            raise UsageError("data of type coco needs annotations; add --annotation FILE.json.")
        content = _content(request.annotation)
        try:
            listed = {str(image["file_name"]): int(image["id"]) for image in content["images"]}
            classes, names = self._classes(content["categories"], request)
            sizes = {int(image["id"]): (image.get("width", 0), image.get("height", 0)) for image in content["images"]}
            objects = _objects(content.get("annotations", []), classes, sizes)
        except (KeyError, TypeError, ValueError) as error:
            raise CalibrationError(
                f"{request.annotation}: not a COCO annotation file ({type(error).__name__}: {error}). It must contain "
                "images, categories and annotations with bbox."
            ) from error
        files = images_in(request.path)
        if not files:
            raise CalibrationError(f"{request.path}: contains no images. Give the folder of the images as --dataset.")
        found = [(file, _image_id(file, request.path, listed)) for file in files]
        known = [(file, image) for file, image in found if image is not None]
        if not known:
            raise CalibrationError(
                f"{request.path}: none of its images is listed in {request.annotation}. Give the listed images."
            )
        if len(known) < len(files):
            remark(
                f"{len(files) - len(known)} of {len(files)} images are not listed in {request.annotation} and are "
                "skipped"
            )
        if len(known) < len(listed):
            remark(
                f"{len(listed) - len(known)} of {len(listed)} listed images are not in {request.path} and are skipped"
            )
        known = known[: request.count or None]
        truths = tuple(objects.get(image, stacked([])) for _, image in known)
        return AnnotatedImages(tuple(file for file, _ in known), truths, tuple(names))

    def _classes(self, categories: Sequence[Any], request: DataRequest) -> tuple[dict[int, int], list[str]]:
        """Return the class index of every category id, and the names by class index."""
        by_id = {int(category["id"]): str(category["name"]) for category in categories}
        if self.ids:
            names = [by_id.get(index, "") for index in range(max(by_id, default=-1) + 1)]
            return {category: category for category in by_id}, names
        ordered = sorted(by_id)
        classes = numbered([by_id[category] for category in ordered], request, request.annotation or request.path)
        return {category: classes.of(by_id[category]) for category in ordered}, list(classes.names)


def _content(path: Path) -> Mapping[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: not valid JSON ({error}). Give instances_*.json as --annotation.") from error


def _image_id(file: Path, folder: Path, listed: Mapping[str, int]) -> int | None:
    return listed.get(file.relative_to(folder).as_posix(), listed.get(file.name))


def _objects(
    annotations: Sequence[Mapping[str, Any]], classes: Mapping[int, int], sizes: Mapping[int, tuple[int, int]]
) -> dict[int, Objects]:
    """Return the objects of every image by its id."""
    rows: dict[int, list[ObjectRow]] = {}
    own: dict[int, list[Mapping[str, Any]]] = {}
    for one in annotations:
        left, top, width, height = (float(value) for value in one["bbox"])
        area, crowd = float(one.get("area", width * height)), bool(one.get("iscrowd", 0))
        row = ((left, top, left + width, top + height), classes[int(one["category_id"])], area, crowd)
        rows.setdefault(int(one["image_id"]), []).append(row)
        own.setdefault(int(one["image_id"]), []).append(one)
    return {
        image: replace(stacked(found), **_details(own[image]), size=sizes.get(image, (0, 0)))
        for image, found in rows.items()
    }


def _details(annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return outlines and points, each if all objects of an image have them."""
    outlines = [one.get("segmentation") for one in annotations]
    points = [one.get("keypoints") for one in annotations]
    known = None not in points and len({len(one or ()) for one in points}) == 1
    return {
        "outlines": tuple(outlines) if all(outlines) else None,
        "points": np.array(points, np.float64).reshape(len(points), -1, 3) if known else None,
    }
