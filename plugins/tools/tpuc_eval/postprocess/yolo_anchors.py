"""YOLO detectors with anchors: v3 and v5."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError, Value
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of, sigmoid
from tpuc_eval.postprocess.composed import TYPICAL, grown_sizes, pixel_boxes, sorted_rows
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import STRIDES, all_corners, are_maps, as_map, cell_count, corners
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Sample
from tpuc_eval.tail import Anchors, Candidates, Tail

# width and height of the three anchors of strides 8, 16 and 32 that v3 and v5 were trained on COCO with
COCO_ANCHORS = (
    *(10, 13, 16, 30, 33, 23),
    *(30, 61, 62, 45, 59, 119),
    *(116, 90, 156, 198, 373, 326),
)
BOX_AND_OBJECT = 5
"""Values before the classes: x, y, w, h, object."""


@dataclass(frozen=True)
class _AnchorYolo(Detector):
    """Maps of x, y, w, h, object, and classes per anchor, before their sigmoid. `anchors` are widths and heights, those
    of the smallest stride first.
    """

    score: float = 0.001  # this and the next as in the evaluation of v5 by its authors
    iou: float = 0.6
    keep: int = 300
    anchors: tuple[float, ...] = COCO_ANCHORS

    @abstractmethod
    def decode(self, raw: NDArray[Any], cell: Floats, anchors: Floats, stride: int) -> tuple[Floats, Floats]:
        """Return centers and sizes in pixels of the input."""

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        size = placement_of(self.name, sample).input
        return len(shapes) in (2, 3, 4) and are_maps(shapes, size, 3, BOX_AND_OBJECT + 1)

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        rows = self._decoded_rows(heads, place.input)
        boxes, scores = self._of_maps(heads, place.input) if rows is None else self._decoded(rows)
        return self.select(boxes, scores, place)

    def _decoded_rows(self, heads: Sequence[NDArray[Any]], size: tuple[int, int]) -> NDArray[Any] | None:
        """Return the output that the network has decoded, if there is one."""
        return None

    def _decoded(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return boxes and scores of `[n, 5 + classes]` in pixels, after the sigmoid."""
        return around(rows[:, :2], rows[:, 2:4]), rows[:, 4:5] * rows[:, BOX_AND_OBJECT:]

    def _of_maps(self, heads: Sequence[NDArray[Any]], size: tuple[int, int]) -> tuple[Floats, Floats]:
        count = self._anchors_per_cell(len(heads))
        maps = sorted((as_map(self.name, head, size, count) for head in heads), key=lambda one: one[0])
        anchors = np.array(self.anchors, np.float64).reshape(len(heads), count, 2)
        boxes: list[Floats] = []
        scores: list[Floats] = []
        for (stride, raw), own in zip(maps, anchors, strict=True):
            if raw.shape[3] <= BOX_AND_OBJECT:
                raise UsageError(
                    f"post-processing '{self.name}': {raw.shape[3]} values per anchor are too few for a box, an object "
                    "and classes; choose another --postprocess."
                )
            cell = corners(raw.shape[0], raw.shape[1])[:, :, None]
            center, extent = self.decode(raw, cell, own, stride)
            boxes.append(around(center, extent).reshape(-1, 4))
            sure = sigmoid(raw[..., 4:])
            scores.append((sure[..., :1] * sure[..., 1:]).reshape(-1, raw.shape[3] - BOX_AND_OBJECT))
        return np.concatenate(boxes), np.concatenate(scores)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        count = self._anchors_per_cell(len(tail.outputs))
        rows, strides = sorted_rows(tail, self.name, count)
        cell, stride = all_corners(tail.size, strides)
        cells = [len(all_corners(tail.size, [one])[0]) for one in strides]
        own = np.array(self.anchors, np.float64).reshape(len(strides), count, 2)
        sizes = np.concatenate([np.tile(one, (number, 1)) for one, number in zip(own, cells, strict=True)])
        sure = tail(top.Sigmoid(), rows)
        scores = tail(top.Mul(), tail.part(sure, 4, 5), tail.part(sure, 5))
        offsets, anchors = self.offsets(tail, rows, sure, Anchors(np.repeat(cell, count, 0), sizes, tail.size))
        strides_of = np.repeat(stride, count, 0)
        moves = anchors.variances * np.concatenate([strides_of / anchors.sizes, np.ones_like(sizes)], axis=1)
        anchors = dataclasses.replace(anchors, centers=anchors.centers * strides_of, variances=moves)
        return Candidates(offsets, scores, anchors)

    @abstractmethod
    def offsets(self, tail: Tail, rows: Value, sure: Value, anchors: Anchors) -> tuple[Value, Anchors]:
        """Return offsets `[images, n, 4]` from rows before and after the sigmoid, and the anchors they refer to:
        centers are in cells, and the first two variances are fractions of a cell.
        """

    def _anchors_per_cell(self, heads: int) -> int:
        count, rest = divmod(len(self.anchors), 2 * heads)
        if rest or not count:
            raise UsageError(
                f"post-processing '{self.name}': {len(self.anchors)} anchor numbers cannot be divided among {heads} "
                f"outputs; write {self.name}{{anchors=[w,h,w,h,...]}}, smallest stride first."
            )
        return count


@dataclass(frozen=True)
class YoloV3(_AnchorYolo):
    """Sizes are `exp(raw)` times the anchor; centers stay within their cell."""

    name = "yolov3"

    def decode(self, raw: NDArray[Any], cell: Floats, anchors: Floats, stride: int) -> tuple[Floats, Floats]:
        return (sigmoid(raw[..., :2]) + cell) * stride, np.exp(raw[..., 2:4]) * anchors

    def offsets(self, tail: Tail, rows: Value, sure: Value, anchors: Anchors) -> tuple[Value, Anchors]:
        return tail.concat(2, tail.part(sure, 0, 2), tail.part(rows, 2, 4)), anchors


@dataclass(frozen=True)
class YoloV5(_AnchorYolo):
    """Sizes are at most four anchors, centers at most half a cell outside; also v7. An output `[n, 5 + classes]` is
    already decoded.
    """

    name = "yolov5"

    def decode(self, raw: NDArray[Any], cell: Floats, anchors: Floats, stride: int) -> tuple[Floats, Floats]:
        inner = sigmoid(raw[..., :4])
        return (2 * inner[..., :2] - 0.5 + cell) * stride, (2 * inner[..., 2:]) ** 2 * anchors

    def offsets(self, tail: Tail, rows: Value, sure: Value, anchors: Anchors) -> tuple[Value, Anchors]:
        grown = grown_sizes(tail, tail.part(sure, 2, 4), np.full((1, 2), 0.5))
        offsets = tail.concat(2, tail.part(sure, 0, 2), grown)
        return offsets, dataclasses.replace(anchors, centers=anchors.centers - 0.5, variances=np.full(4, 2.0))

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        decoded = [value for value in tail.outputs if _is_decoded(value.tensor.dims[1:], tail.size)]
        if len(decoded) != 1:
            return super().compose(tail)
        (rows,) = decoded
        levels = [all_corners(tail.size, [one]) for one in STRIDES]
        places = np.concatenate([np.tile((cell + 0.5) * stride, (3, 1)) for cell, stride in levels])
        sizes = np.concatenate([np.tile(stride * TYPICAL, (3, 2)) for _, stride in levels])
        scores = tail(top.Mul(), tail.part(rows, 4, 5), tail.part(rows, 5))
        anchors = Anchors(places, sizes, tail.size)
        return pixel_boxes(tail, tail.part(rows, 0, 2), tail.part(rows, 2, 4), scores, anchors)

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        size = placement_of(self.name, sample).input
        return sum(_is_decoded(shape[1:], size) for shape in shapes) == 1 or super().fits(shapes, sample)

    def _decoded_rows(self, heads: Sequence[NDArray[Any]], size: tuple[int, int]) -> NDArray[Any] | None:
        # some exports give the maps too
        rows = [head for head in heads if _is_decoded(head.shape, size)]
        return rows[0] if len(rows) == 1 else None


def _is_decoded(shape: tuple[int, ...], size: tuple[int, int]) -> bool:
    return len(shape) == 2 and shape[0] == 3 * cell_count(size) and shape[1] > BOX_AND_OBJECT
