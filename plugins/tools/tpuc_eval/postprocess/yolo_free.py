"""Anchor-free YOLO detectors: X, and v8 with its successors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of, sigmoid, softmax
from tpuc_eval.postprocess.composed import TYPICAL, cell_anchors, distance_boxes, grown_sizes, pixel_boxes, sorted_rows
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import STRIDES, all_corners, are_maps, as_map, cell_count, cells, corners
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.postprocess.yolo_tasks import row_kinds
from tpuc_eval.protocols import Detections, Outputs, Sample
from tpuc_eval.tail import Anchors, Candidates, Tail

_FASTEST_STRIDE = 16
_ROUNDED = 0.5
BINS = 16  # of the distribution of each distance in v8


@dataclass(frozen=True)
class YoloX(Detector):
    """`[n, 5 + classes]` over the cells of strides 8, 16, 32, or a map for each: offset to the cell and logarithm of
    the size in strides; object and classes after their sigmoid. `decoded`: the network returns pixels.
    """

    name = "yolox"
    iou: float = 0.65  # as in the evaluation by its authors
    keep: int = 300
    decoded: bool = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        size = placement_of(self.name, sample).input
        if len(shapes) == 1:
            return len(shapes[0]) == 3 and shapes[0][1] == cell_count(size) and shapes[0][2] > 5
        return len(shapes) == 3 and are_maps(shapes, size, 1, 6)

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        if len(heads) > 1:
            maps = sorted((as_map(self.name, head, place.input, 1) for head in heads), key=lambda one: one[0])
            strides = [stride for stride, _ in maps]
            rows = np.concatenate([values.reshape(-1, values.shape[3]) for _, values in maps])
            cell, stride = all_corners(place.input, strides)
        else:
            rows = heads[0]
            cell, stride = all_corners(place.input)
        if rows.ndim != 2 or len(rows) != len(cell) or rows.shape[1] <= 5:
            raise _no_head(self.name, rows.shape, len(cell), "5 + classes")
        center, extent = rows[:, :2], rows[:, 2:4]
        if not self.decoded:
            center, extent = (center + cell) * stride, np.exp(extent) * stride
        scores = rows[:, 4:5] * rows[:, 5:]
        return self.select(around(center, extent), scores, place)

    def recognized(self, tail: Tail) -> YoloX:
        """Boxes are in pixels if sums or exponentials follow the last convolutions."""
        return dataclasses.replace(self, decoded=self.decoded or tail.computes(top.Exp, top.Add, top.AddConst))

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        rows, strides = (tail.outputs[0], STRIDES) if len(tail.outputs) == 1 else sorted_rows(tail, self.name, 1)
        places, stride = cell_anchors(tail.size, strides)
        scores = tail(top.Mul(), tail.part(rows, 4, 5), tail.part(rows, 5))
        if not self.decoded:
            return Candidates(tail.part(rows, 0, 4), scores, Anchors(places, np.tile(stride, 2), tail.size))
        anchors = Anchors(places, np.tile(stride * TYPICAL, 2), tail.size)
        return pixel_boxes(tail, tail.part(rows, 0, 2), tail.part(rows, 2, 4), scores, anchors)


@dataclass(frozen=True)
class YoloV8(Detector):
    """One output of boxes and class scores, `[4 + classes, n]` in pixels (also v9 and v11), or a map per stride with
    the distributions of the four distances and the classes before their sigmoid.
    """

    name = "yolov8"
    score: float = 0.001  # this and the next as in the evaluation by its authors
    iou: float = 0.7
    keep: int = 300

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        size = placement_of(self.name, sample).input
        if len(shapes) == 1:
            return len(shapes[0]) == 3 and shapes[0][2] == cell_count(size) and shapes[0][1] > 4
        return len(shapes) == 3 and are_maps(shapes, size, 1, 4 * BINS + 1)

    def reads(self, outputs: Outputs, sample: Sample) -> bool:
        heads = only_row(outputs)
        if len(heads) > 1:
            return True
        return _are_scores(self._decoded(heads[0], placement_of(self.name, sample).input)[1])

    def ends(self, tail: Tail) -> bool:
        """Check that nothing follows the scores."""
        kinds = row_kinds(tail, tail.outputs[0]) if len(tail.outputs) == 1 else None
        return self.fits(tail.shapes, tail.sample) and (kinds is None or not kinds[1])

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        boxes, scores = self._decoded(heads[0], place.input) if len(heads) == 1 else self._of_maps(heads, place.input)
        if not _are_scores(scores):
            raise UsageError(
                f"post-processing '{self.name}': values behind the boxes are from {scores.min():.3g} to "
                f"{scores.max():.3g}, so not all are scores of classes; name yolov8-pose, yolov8-obb, or the one that "
                "fits."
            )
        return self.select(boxes, scores, place)

    def _decoded(self, rows: NDArray[Any], size: tuple[int, int]) -> tuple[Floats, Floats]:
        count = cell_count(size)
        if rows.ndim == 2 and rows.shape[1] == count:
            rows = rows.T
        if rows.ndim != 2 or len(rows) != count or rows.shape[1] <= 4:
            raise _no_head(self.name, rows.shape, count, "4 + classes")
        return around(rows[:, :2], rows[:, 2:4]), rows[:, 4:]

    def _of_maps(self, heads: Sequence[NDArray[Any]], size: tuple[int, int]) -> tuple[Floats, Floats]:
        boxes: list[Floats] = []
        scores: list[Floats] = []
        for stride, raw in sorted((as_map(self.name, head, size, 1) for head in heads), key=lambda one: one[0]):
            values = raw[:, :, 0]
            if values.shape[2] <= 4 * BINS:
                raise _no_head(self.name, values.shape, values.shape[0] * values.shape[1], f"{4 * BINS} + classes")
            middle = corners(values.shape[0], values.shape[1]) + 0.5
            bins = softmax(values[..., : 4 * BINS].reshape(*values.shape[:2], 4, BINS))
            distance = bins @ np.arange(BINS, dtype=np.float64)
            box = np.concatenate([middle - distance[..., :2], middle + distance[..., 2:]], axis=-1) * stride
            boxes.append(box.reshape(-1, 4))
            scores.append(sigmoid(values[..., 4 * BINS :]).reshape(-1, values.shape[2] - 4 * BINS))
        return np.concatenate(boxes), np.concatenate(scores)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        return self._compose_decoded(tail) if len(tail.outputs) == 1 else self._compose_maps(tail)

    def _compose_decoded(self, tail: Tail) -> Candidates:
        (rows,) = tail.outputs
        places, stride = cell_anchors(tail.size, STRIDES, 0.5)
        anchors = Anchors(places, np.tile(stride * TYPICAL, 2), tail.size)
        centers, sizes, scores = (
            tail.permute(tail.part(rows, start, end, axis=1), 0, 2, 1) for start, end in ((0, 2), (2, 4), (4, None))
        )
        return pixel_boxes(tail, centers, sizes, scores, anchors)

    def _compose_maps(self, tail: Tail) -> Candidates:
        rows, strides = sorted_rows(tail, self.name, 1)
        scores = tail(top.Sigmoid(), tail.part(rows, 4 * BINS))
        return distance_boxes(tail, tail.part(rows, 0, 4 * BINS), scores, *cell_anchors(tail.size, strides, 0.5))


@dataclass(frozen=True)
class FastestDet(Detector):
    """One map of stride 16 with `5 + classes` values: object and classes as probabilities, the offset to the cell
    before its tanh, the size as a fraction of the input before its sigmoid. Scores are object^0.6 class^0.4.
    """

    name = "fastestdet"

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        rows, columns = cells(placement_of(self.name, sample).input, _FASTEST_STRIDE)
        return len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] > 5 and shapes[0][2:] == (rows, columns)

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        count = int(np.prod(cells(place.input, _FASTEST_STRIDE)))
        values = heads[0].reshape(heads[0].shape[0], -1).T
        if len(heads) != 1 or heads[0].ndim != 3 or len(values) != count or values.shape[1] <= 5:
            raise _no_head(self.name, heads[0].shape, count, "5 + classes")
        cell, _ = all_corners(place.input, (_FASTEST_STRIDE,))
        center = (cell + np.tanh(values[:, 1:3])) / heads[0].shape[:0:-1]
        boxes = around(center, sigmoid(values[:, 3:5])) * np.tile(place.input, 2)
        scores = np.maximum(values[:, :1], 0) ** 0.6 * np.maximum(values[:, 5:], 0) ** 0.4
        return self.select(boxes, scores, place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        rows, strides = sorted_rows(tail, self.name, 1)
        places, stride = cell_anchors(tail.size, strides)
        anchors = Anchors(places, np.tile(stride * TYPICAL, 2), tail.size)
        moved, grown = tail(top.Tanh(), tail.part(rows, 1, 3)), tail(top.Sigmoid(), tail.part(rows, 3, 5))
        grown = grown_sizes(tail, grown, anchors.sizes / np.array(tail.size))
        real, sure = (tail(top.MaxConst(const_val=0.0), tail.part(rows, *ends)) for ends in ((0, 1), (5, None)))
        scores = tail(top.Mul(), tail(top.Pow(exponent=0.6), real), tail(top.Pow(exponent=0.4), sure))
        moves = np.array([1 / TYPICAL, 1 / TYPICAL, 1, 1])
        return Candidates(tail.concat(2, moved, grown), scores, dataclasses.replace(anchors, variances=moves))


def _are_scores(values: NDArray[Any]) -> bool:
    """True if these can be probabilities, even if they share 8 bits with coordinates."""
    return bool(values.size == 0 or (values.min() > -_ROUNDED and values.max() < 1 + _ROUNDED))


def _no_head(name: str, shape: tuple[int, ...], count: int, values: str) -> UsageError:
    return UsageError(
        f"post-processing '{name}': the output is {'x'.join(map(str, shape))}, not {count} cells with {values} values; "
        "choose another --postprocess."
    )
