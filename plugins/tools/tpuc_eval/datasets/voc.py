"""Images with objects in Pascal VOC format: an XML file per image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from tpuc.api import CalibrationError

from tpuc_eval.datasets.annotated import AnnotatedImages, ClassIndices, ObjectRow, annotated_only, numbered, stacked
from tpuc_eval.datasets.images import images_in
from tpuc_eval.datasets.labels import read_lines
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples, Objects

IMAGES, ANNOTATIONS, SPLITS = "JPEGImages", "Annotations", "ImageSets/Main"
"""Folders of the published data."""
NAMES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The classes of the published data, in alphabetical order."""


class Marked(NamedTuple):
    """One object in an XML file."""

    name: str
    box: tuple[float, float, float, float]
    is_difficult: bool


@dataclass(frozen=True)
class Voc(DatasetType):
    """The published folder, or a folder of images and, with --annotation, one of XML files. Classes are the published
    ones if they suffice, else all names in sorted order, or the lines of --label-file.

    `split`: the images listed in `ImageSets/Main/SPLIT.txt`. Detections of difficult objects are ignored.
    """

    name = "voc"
    metric = "voc"
    split: str = ""

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        published = request.path / IMAGES
        images = published if published.is_dir() else request.path
        folder = request.annotation or (request.path / ANNOTATIONS if published.is_dir() else None)
        files = images_in(images)
        if self.split:
            listed = {line.split()[0] for line in read_lines(request.path / SPLITS / f"{self.split}.txt")}
            files = [file for file in files if file.stem in listed]
        if not files:
            raise CalibrationError(f"{images}: contains no images. Give the folder of the images as --dataset.")
        marked = [_marked((folder or file.parent) / f"{file.stem}.xml") for file in files]
        named = {one.name for found in marked for one in found or ()}
        names = NAMES if named <= set(NAMES) else tuple(sorted(named))
        classes = numbered(names, request, folder or images)
        objects = [None if found is None else _objects(found, classes) for found in marked]
        known = annotated_only(request, files, objects, remark)
        return AnnotatedImages(tuple(file for file, _ in known), tuple(one for _, one in known), tuple(classes.names))


def _marked(path: Path) -> list[Marked] | None:
    """Return the objects in a file; None if there is no file."""
    if not path.is_file():
        return None
    try:
        return [_object(element) for element in ET.parse(path).getroot().iter("object")]
    except (ET.ParseError, ValueError) as error:
        raise CalibrationError(
            f"{path}: not a Pascal VOC annotation ({error}). Every object must have a name and a bndbox."
        ) from error


def _object(element: ET.Element) -> Marked:
    """Parse an object; pixels count from 1 in the file, and the last one is inside the box."""
    left, top, right, bottom = (_number(element, f"bndbox/{end}") for end in ("xmin", "ymin", "xmax", "ymax"))
    name = (element.findtext("name") or "").strip()
    if not name:
        raise ValueError("an object without name")
    return Marked(name, (left - 1, top - 1, right, bottom), (element.findtext("difficult") or "0").strip() == "1")


def _number(element: ET.Element, place: str) -> float:
    text = element.findtext(place)
    if text is None:
        raise ValueError(f"an object without {place}")
    return float(text)


def _objects(found: list[Marked], classes: ClassIndices) -> Objects:
    rows: list[ObjectRow] = []
    for one in found:
        left, top, right, bottom = one.box
        rows.append((one.box, classes.of(one.name), (right - left) * (bottom - top), one.is_difficult))
    return stacked(rows)
