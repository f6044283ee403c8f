"""Detectors that select their boxes themselves: YOLO v10 and v26."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import UsageError
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import placement_of
from tpuc_eval.postprocess.grids import cell_count
from tpuc_eval.postprocess.rows import DetectionRows
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail

_COLUMNS = 6


@dataclass(frozen=True)
class YoloV10(Postprocess):
    """One output `[n, 6]`: left, top, right, bottom in pixels of the input, score, class. In a file, rows below `score`
    stay.
    """

    name = "yolov10"
    finds_objects = True
    score: float = 0.001  # as in the evaluation by its authors

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        count = cell_count(placement_of(self.name, sample).input)
        return len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == _COLUMNS and shapes[0][1] != count

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        if len(heads) != 1 or heads[0].ndim != 2 or heads[0].shape[1] != _COLUMNS:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(f"post-processing '{self.name}': {shapes} is not one output of rows of six.")
        (rows,) = heads
        rows = rows[rows[:, 4] > self.score]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        return Detections(place.to_image(rows[:, :4]), rows[:, 4], rows[:, 5].astype(np.int64))

    def append(self, tail: Tail) -> DetectionRows:
        """See Postprocess."""
        if not self.fits(tail.shapes, tail.sample):
            raise UsageError(f"--post {self.name}: the outputs ({tail.listed}) are not one of rows of six.")
        (rows,) = tail.outputs
        images, count, _ = rows.tensor.dims
        shares = np.tile(1 / np.array(tail.size, np.float64), 2)[None, None]
        boxes = tail(top.Mul(), tail.part(rows, 0, 4), tail.constant(shares))
        numbers = np.broadcast_to(np.arange(images)[:, None, None], (images, count, 1))
        parts = (tail.constant(numbers), tail.part(rows, 5), tail.part(rows, 4, 5), boxes)
        tail.finish(tail.reshape(tail.concat(2, *parts), images, 1, count, _COLUMNS + 1))
        return DetectionRows(score=self.score, background=False)
