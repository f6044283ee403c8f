"""Images with faces in WIDER FACE format: one list of files with their boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.annotated import AnnotatedImages, ObjectRow, annotated_only, stacked
from tpuc_eval.datasets.images import images_in
from tpuc_eval.datasets.labels import read_lines
from tpuc_eval.protocols import DataRequest, DatasetType, LabeledSamples, Objects

_SIDES, _INVALID = 4, 7
"""Columns: left, top, width, height, blur, expression, illumination, invalid, occlusion, pose."""


@dataclass(frozen=True)
class Wider(DatasetType):
    """Lists of `FILE`, the number of boxes, and a line of left, top, width, height (and more) for each. There is one
    class, `name`. Detections of boxes marked invalid, or less than `least` pixels high, are ignored.
    """

    name = "wider"
    metric = "voc"
    label: str = "face"
    least: float = 0.0

    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        if request.annotation is None:
            raise UsageError("data of type wider needs a list of boxes; add --annotation FILE.txt.")
        files = images_in(request.path)
        if not files:
            raise CalibrationError(f"{request.path}: contains no images. Give the folder of the images as --dataset.")
        try:
            listed = dict(_listed(read_lines(request.annotation)))
            objects = {name: self._objects(rows, request.label_offset) for name, rows in listed.items()}
        except (ValueError, IndexError) as error:
            raise CalibrationError(
                f"{request.annotation}: not a WIDER FACE list ({error}). It needs a line FILE, a line with a count, "
                "and that many boxes."
            ) from error
        found = [objects.get(file.relative_to(request.path).as_posix(), objects.get(file.name)) for file in files]
        known = annotated_only(request, files, found, remark)
        names = ("",) * max(request.label_offset, 0) + (self.label,)
        return AnnotatedImages(tuple(file for file, _ in known), tuple(one for _, one in known), names)

    def _objects(self, rows: Sequence[Sequence[float]], index: int) -> Objects:
        found: list[ObjectRow] = []
        for row in rows:
            left, top, width, height = row[:_SIDES]
            if width <= 0 or height <= 0:
                continue  # the row that stands for none
            aside = (len(row) > _INVALID and row[_INVALID] != 0) or height < self.least
            found.append(((left, top, left + width, top + height), index, width * height, aside))
        return stacked(found)


def _listed(lines: Sequence[str]) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield every file with its rows; a count of 0 may be followed by one row of zeros."""
    place = 0
    while place < len(lines):
        name = Path(lines[place]).as_posix()
        count = int(lines[place + 1])
        place += 2
        rows = [[float(part) for part in line.split()] for line in lines[place : place + count]]
        if len(rows) < count or any(len(row) < _SIDES for row in rows):
            raise ValueError(f"{count} boxes expected for {name}")
        place += count
        if not count and place < len(lines) and _is_row(lines[place]):
            place += 1
        yield name, rows


def _is_row(line: str) -> bool:
    return len(line.split()) >= _SIDES and all(part.lstrip("-").isdigit() for part in line.split())
