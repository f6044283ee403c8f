"""Rows of objects that were found in the network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import UsageError
from tpuc_images.placing import Placement
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of
from tpuc_eval.protocols import Detections, Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail


@dataclass(frozen=True)
class DetectionRows(Postprocess):
    """Rows of seven that were found in the network: place in the batch, class, score and a box as fractions of the
    input. `centre`: the box is centre and size, not corners; `pixels`: in pixels of the input; `background`: class 0 is
    none.
    """

    name = "detection-rows"
    finds_objects = True
    score: float = 0.0
    centre: bool = False
    pixels: bool = False
    background: bool = True

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][3] == 7

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        if len(outputs) != 1 or (array := next(iter(outputs.values()))).shape[-1] != 7:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(f"post-processing '{self.name}': {shapes} is not one output of rows of seven.")
        rows = array.reshape(-1, 7).astype(np.float64)
        # what is not used is filled with zeros or minus ones
        rows = rows[(rows[:, 0] == 0) & (rows[:, 2] > self.score) & (rows[:, 1] >= int(self.background))]
        rows = rows[np.argsort(-rows[:, 2], kind="stable")]
        boxes = around(rows[:, 3:5], rows[:, 5:7]) if self.centre else rows[:, 3:7]
        return _in_image(boxes, rows, place, self.pixels, int(self.background))

    def append(self, tail: Tail) -> DetectionRows:
        """The network ends with what finds them, which the processor may compute from now on."""
        found = [value.defining for value in tail.outputs if value.defining is not None]
        if len(found) != 1 or not isinstance(found[0].op, top.DetectionOutput):
            raise UsageError(
                f"--post {self.name}: the network does not end with a DetectionOutput ({tail.listed}); name the "
                "post-processing that its outputs are for."
            )
        tail.leave(found[0])
        return dataclasses.replace(self, background=found[0].op.background_label_id == 0)


def _in_image(boxes: Floats, rows: Floats, place: Placement, pixels: bool, first: int) -> Detections:
    inner = boxes if pixels else boxes * np.tile(place.input, 2)
    return Detections(place.to_image(inner), rows[:, 2], rows[:, 1].astype(np.int64) - first)
