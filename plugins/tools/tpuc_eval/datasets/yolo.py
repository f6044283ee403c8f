"""Images with objects in YOLO training format: a text file per image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CalibrationError
from tpuc_images.images import image_size

from tpuc_eval.datasets.annotated import AnnotatedImages, ObjectRow, annotated_only, stacked
from tpuc_eval.datasets.images import images_in
from tpuc_eval.datasets.labels import class_names, read_lines
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples, Objects

_COLUMNS = 5


@dataclass(frozen=True)
class Yolo(DatasetType):
    """For every image there is a file of lines `CLASS X Y WIDTH HEIGHT` (center and size as fractions of the image):
    next to the image, with `labels/` instead of `images/` in its path, or in the folder of --annotation. An empty
    file means an image without objects.
    """

    name = "yolo"
    metric = "coco"

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        files = images_in(request.path)
        if not files:
            raise CalibrationError(f"{request.path}: contains no images. Give the folder of the images as --dataset.")
        objects = [_objects(file, request) for file in files]
        known = annotated_only(request, files, objects, remark)
        names = class_names(request.label_file) if request.label_file is not None else []
        padded = ("",) * max(request.label_offset, 0) + tuple(names) if names else ()
        return AnnotatedImages(tuple(file for file, _ in known), tuple(one for _, one in known), padded)


def _objects(image: Path, request: DataRequest) -> Objects | None:
    """Return the objects; None if no file describes the image."""
    path = _beside(image, request)
    if not path.is_file():
        return None
    height, width = image_size(image)
    rows: list[ObjectRow] = []
    for line in read_lines(path):
        parts = line.split()
        try:
            index, (x, y, w, h) = int(parts[0]), (float(part) for part in parts[1:_COLUMNS])
        except (ValueError, IndexError) as error:
            raise CalibrationError(
                f"{path}: line '{line}' is not CLASS X Y WIDTH HEIGHT, with fractions of the image. Correct it."
            ) from error
        box = ((x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height)
        rows.append((box, index + request.label_offset, w * width * h * height, False))
    return stacked(rows)


def _beside(image: Path, request: DataRequest) -> Path:
    if request.annotation is not None:
        return request.annotation / f"{image.stem}.txt"
    parts = list(image.parts)
    beside = image.with_suffix(".txt")
    if beside.is_file() or "images" not in parts:
        return beside
    last = len(parts) - 1 - parts[::-1].index("images")
    return Path(*parts[:last], "labels", *parts[last + 1 :]).with_suffix(".txt")
