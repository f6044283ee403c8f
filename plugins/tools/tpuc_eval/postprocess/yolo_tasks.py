"""YOLO v8, 11 and 26 for segmentation masks, keypoints, and rotated boxes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError, Value
from tpuc_images.placing import Placement
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Choice, Floats, Suppression, around, placement_of, suppress
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import cell_count, cells
from tpuc_eval.postprocess.outlines import masks_of
from tpuc_eval.postprocess.rotated import corners_of, suppress_rotated
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail

SEEN = 0.5
"""Confidence from which a keypoint is shown."""
CHOSEN = 6
"""Columns of a detection chosen by the network: four for the box, score, class."""
_ROUNDED = 0.02
"""Tolerance for probabilities after 8-bit quantization."""


@dataclass(frozen=True)
class Found:
    """Decoded outputs: `boxes` `[n, 4]`, `scores` `[n, classes]`, and the task's other values, `[n, more]`. `choice` is
    set if the network itself chose the detections.
    """

    boxes: Floats
    scores: Floats
    more: Floats
    choice: Choice | None


@dataclass(frozen=True)
class YoloTask(Detector):
    """Base for outputs `[4 + classes + more, n]` with one column per cell, or rows `[n, 6 + more]` of detections chosen
    by the network: box, score, class. The rows of the former may be separate outputs, in this order.
    """

    score: float = 0.001  # this and the next as in the evaluation by their authors
    iou: float = 0.7
    keep: int = 300

    @abstractmethod
    def more(self, shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> int | None:
        """The number of further values per object; None if the outputs, with their batch, are of another kind."""

    @abstractmethod
    def detections(self, found: Found, outputs: Outputs, place: Placement) -> Detections:
        """The objects in pixels of the image."""

    def is_evident(self, found: Found) -> bool:
        """True if the values identify the task where the shapes could also be those of classes."""
        return True

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        size = placement_of(self.name, sample).input
        return self._columns([shape for shape in shapes if len(shape) == 3], shapes, size) is not None

    def reads(self, outputs: Outputs, sample: Sample) -> bool:
        return self.is_evident(self._found(outputs, placement_of(self.name, sample).input))

    def ends(self, tail: Tail) -> bool:
        """Recognize chosen detections by their shape, others by the sigmoid of their scores, which ends before
        `more`.
        """
        more = self.more(tail.shapes, tail.size)
        rows = [value for value in tail.outputs if len(value.tensor.dims) == 3]
        if not self.fits(tail.shapes, tail.sample) or more is None or len(rows) != 1:
            return False
        (whole,) = rows
        if whole.tensor.dims[2] == CHOSEN + more and whole.tensor.dims[1] != cell_count(tail.size):
            return True
        kinds = row_kinds(tail, whole)
        return kinds is None or kinds[1] == more

    def _columns(
        self, rows: Sequence[tuple[int, ...]], shapes: Sequence[tuple[int, ...]], size: tuple[int, int]
    ) -> bool | None:
        """True if the network chose the detections; None if the outputs are of another kind."""
        more, count = self.more(shapes, size), cell_count(size)
        if more is None or not rows:
            return None
        if all(shape[2] == count for shape in rows):
            return False if sum(shape[1] for shape in rows) > 4 + more else None
        return True if len(rows) == 1 and rows[0][2] == CHOSEN + more and rows[0][1] != count else None

    def _found(self, outputs: Outputs, size: tuple[int, int]) -> Found:
        heads = [head for head in only_row(outputs) if head.ndim == 2]
        shapes = [(1, *head.shape) for head in only_row(outputs)]
        is_chosen, more = self._columns([(1, *head.shape) for head in heads], shapes, size), self.more(shapes, size)
        if is_chosen is None or more is None:
            listed = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(
                f"post-processing '{self.name}': {listed} is not one output of {cell_count(size)} cells with 4 + "
                "classes and its own values; choose another --postprocess."
            )
        if not is_chosen:
            rows = np.concatenate(heads).T
            return Found(rows[:, :4], rows[:, 4 : rows.shape[1] - more], rows[:, rows.shape[1] - more :], None)
        rows = heads[0][heads[0][:, 4] > self.score]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")][: self.keep]
        choice = Choice(np.arange(len(rows)), rows[:, 5].astype(np.int64), rows[:, 4])
        return Found(rows[:, :4], rows[:, 4:5], rows[:, CHOSEN:], choice)

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        return self.detections(self._found(outputs, place.input), outputs, place)

    def chosen(self, found: Found, boxes: Floats, suppressed: Suppression = suppress) -> Choice:
        """The network's own choice, or the one among `boxes`."""
        return self.choose(boxes, found.scores, suppressed) if found.choice is None else found.choice

    def corners(self, found: Found) -> Floats:
        """Boxes as left, top, right, bottom; chosen detections already have that form."""
        return around(found.boxes[:, :2], found.boxes[:, 2:]) if found.choice is None else found.boxes

    def append(self, tail: Tail) -> Postprocess:
        """Boxes, scores and further values become separate outputs; the host chooses the detections."""
        self.check_ends(tail)
        more = self.more(tail.shapes, tail.size) or 0
        values: list[Value] = []
        for value in tail.outputs:
            dims = value.tensor.dims
            if len(dims) != 3 or dims[2] != cell_count(tail.size):
                values.append(value)
                continue
            ends = (0, 4, dims[1] - more, dims[1])
            values += [tail.part(value, start, end, 1) for start, end in pairwise(ends)]
        tail.finish(*values)
        return self


def row_kinds(tail: Tail, whole: Value) -> tuple[int, int] | None:
    """The number of rows of `[4 + classes + more, n]` that are scores, recognized by their sigmoid, and of those after
    them; None if the ops do not show it.
    """
    parts = tail.parts(whole, 1)
    starts = np.cumsum([0, *(part.tensor.dims[1] for part in parts)]).tolist()
    if 4 not in starts[:-1]:
        return None
    behind = parts[starts.index(4) :]
    scored = [part for part in behind if part.defining is not None and isinstance(part.defining.op, top.Sigmoid)]
    if not scored or scored != behind[: len(scored)]:
        return None
    counts = [sum(part.tensor.dims[1] for part in some) for some in (scored, behind[len(scored) :])]
    return counts[0], counts[1]


def are_shares(values: NDArray[Any]) -> bool:
    """True if all values can be probabilities."""
    return bool(values.size == 0 or (values.min() >= -_ROUNDED and values.max() <= 1 + _ROUNDED))


@dataclass(frozen=True)
class YoloSegment(YoloTask):
    """Each object has coefficients of the prototypes `[m, h / 4, w / 4]`, another output; the weighted sum is positive
    inside the mask.
    """

    name = "yolov8-seg"

    def more(self, shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> int | None:
        maps = [shape for shape in shapes if len(shape) == 4]
        return maps[0][1] if len(maps) == 1 and maps[0][2:] == cells(size, 4) else None

    def detections(self, found: Found, outputs: Outputs, place: Placement) -> Detections:
        boxes = self.corners(found)
        choice = self.chosen(found, boxes)
        (prototypes,) = (head for head in only_row(outputs) if head.ndim == 3)
        inner = place.to_image(boxes[choice.rows])
        masks = masks_of(found.more[choice.rows], prototypes, inner, place)
        return Detections(inner, choice.scores, choice.classes, masks=masks, size=place.image)


@dataclass(frozen=True)
class YoloPose(YoloTask):
    """Each object has `points` keypoints of `values` numbers: x and y in pixels, and the confidence if there are
    three.
    """

    name = "yolov8-pose"
    points: int = 17
    values: int = 3

    def more(self, shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> int | None:
        return self.points * self.values if all(len(shape) == 3 for shape in shapes) else None

    def is_evident(self, found: Found) -> bool:
        points = found.more.reshape(len(found.more), self.points, self.values)
        return found.choice is not None or (
            are_shares(found.scores)
            and are_shares(points[..., 2:])
            and all(np.abs(points[..., axis]).max() > 1 + _ROUNDED for axis in (0, 1))
        )

    def detections(self, found: Found, outputs: Outputs, place: Placement) -> Detections:
        boxes = self.corners(found)
        choice = self.chosen(found, boxes)
        points = found.more[choice.rows].reshape(-1, self.points, self.values)
        flat = points[..., :2].reshape(-1, 2)
        inner = place.to_image(np.tile(flat, 2))[:, :2].reshape(-1, self.points, 2)
        sure = points[..., 2:] if self.values > 2 else np.ones_like(points[..., :1])
        joined = np.concatenate([inner, sure], axis=-1)
        return Detections(
            place.to_image(boxes[choice.rows]), choice.scores, choice.classes, points=joined, size=place.image
        )


@dataclass(frozen=True)
class YoloObb(YoloTask):
    """Each object has a rotation angle in radians besides its box, which is given as center and size."""

    name = "yolov8-obb"

    def more(self, shapes: Sequence[tuple[int, ...]], size: tuple[int, int]) -> int | None:
        return 1 if all(len(shape) == 3 for shape in shapes) else None

    def is_evident(self, found: Found) -> bool:
        return found.choice is not None or (are_shares(found.scores) and not are_shares(found.more))

    def detections(self, found: Found, outputs: Outputs, place: Placement) -> Detections:
        boxes = np.concatenate([found.boxes, found.more], axis=1)
        choice = self.chosen(found, boxes, suppress_rotated)
        corners = (corners_of(boxes[choice.rows]) - place.offset) / place.scale
        around_them = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=-1)
        inner = np.clip(around_them, 0.0, np.tile(place.image, 2))
        return Detections(inner, choice.scores, choice.classes, corners=corners, size=place.image)
