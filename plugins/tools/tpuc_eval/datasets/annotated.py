"""Shared code for images with annotated objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from tpuc.api import CalibrationError, UsageError

from tpuc_eval.datasets.images import ImageFiles
from tpuc_eval.datasets.labels import class_names
from tpuc_eval.protocols import DataRequest, Objects

ObjectRow: TypeAlias = tuple[tuple[float, float, float, float], int, float, bool]
"""Corners x1, y1, x2, y2 in pixels, class index, area in pixels, and whether detections of it are ignored."""


@dataclass(frozen=True)
class AnnotatedImages(ImageFiles):
    """Image files with the objects in them."""

    objects: tuple[Objects, ...]
    classes: Sequence[str]

    def truth(self, index: int) -> Objects:
        return self.objects[index]


@dataclass(frozen=True)
class ClassIndices:
    """`names`: the network's classes by index; and the index of every class that annotations name."""

    names: Sequence[str]
    of: Callable[[str], int]


def stacked(rows: Sequence[ObjectRow]) -> Objects:
    """Combine the objects of one image."""
    return Objects(
        np.array([row[0] for row in rows], np.float64).reshape(-1, 4),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
        np.array([row[3] for row in rows], np.bool_),
    )


def numbered(names: Sequence[str], request: DataRequest, source: Path) -> ClassIndices:
    """Return class indices in the order of these classes, or of those in `--label-file`.

    Raises UsageError if `source` names a class that is not among them.
    """
    own = list(names) if request.label_file is None else class_names(request.label_file)
    offset = request.label_offset

    def index(name: str) -> int:
        if name not in own:
            raise UsageError(
                f"{request.label_file or source}: no class is named '{name}', as in {source}. Give class names that "
                "match the annotations with --label-file."
            )
        return own.index(name) + offset

    return ClassIndices([""] * max(offset, 0) + own, index)


def annotated_only(
    request: DataRequest, files: Sequence[Path], objects: Sequence[Objects | None], remark: Callable[[str], None]
) -> list[tuple[Path, Objects]]:
    """Return the requested number of annotated images; raises CalibrationError if there are none."""
    known = [(file, found) for file, found in zip(files, objects, strict=True) if found is not None]
    source = request.annotation or request.path
    if not known:
        raise CalibrationError(
            f"{request.path}: none of its images has annotations in {source}. Give the annotated images."
        )
    if len(known) < len(files):
        remark(f"{len(files) - len(known)} of {len(files)} images have no annotations in {source} and are skipped")
    return known[: request.count or None]
