"""NanoDet-Plus: classes, and distributions of four distances, for the cells of four maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import UsageError

from tpuc_eval.postprocess.boxes import placement_of, softmax
from tpuc_eval.postprocess.composed import cell_anchors, distance_boxes
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import cell_count
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Sample
from tpuc_eval.tail import Candidates, Tail

_BINS = 8  # of the distribution of each distance
_DISTANCES = 4 * _BINS


@dataclass(frozen=True)
class NanoDet(Detector):
    """One output `[n, classes + 32]` over the cells of `strides`: class probabilities, then eight bins for each
    distance from the cell's corner to the sides of the box.
    """

    name = "nanodet"
    iou: float = 0.6  # as in the evaluation by its authors
    keep: int = 100
    strides: tuple[int, ...] = (8, 16, 32, 64)

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        count = cell_count(placement_of(self.name, sample).input, self.strides)
        return len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][1] == count and shapes[0][2] > _DISTANCES

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        places, stride = cell_anchors(place.input, self.strides)
        if len(heads) != 1 or heads[0].shape[:1] != (len(places),) or heads[0].shape[1] <= _DISTANCES:
            raise UsageError(
                f"post-processing '{self.name}': the outputs are not {len(places)} cells with classes and "
                f"{_DISTANCES} bins; choose another --postprocess."
            )
        (rows,) = heads
        bins = softmax(rows[:, -_DISTANCES:].reshape(-1, 4, _BINS))
        distances = bins @ np.arange(_BINS, dtype=np.float64) * stride
        boxes = np.concatenate([places - distances[:, :2], places + distances[:, 2:]], axis=1)
        return self.select(boxes, rows[:, :-_DISTANCES], place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        (rows,) = tail.outputs
        places, stride = cell_anchors(tail.size, self.strides)
        classes = rows.tensor.dims[2] - _DISTANCES
        return distance_boxes(tail, tail.part(rows, classes), tail.part(rows, 0, classes), places, stride)
