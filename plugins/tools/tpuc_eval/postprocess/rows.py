"""Rows of objects selected in the network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from tpuc.api import Op, UsageError
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of
from tpuc_eval.protocols import Detections, Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail


@dataclass(frozen=True)
class FoundRows(Postprocess):
    """Base of outputs `[n, 1, k, columns]` produced by one op of the network."""

    finds_objects = True
    columns: ClassVar[int]
    op: ClassVar[type[Op]]
    """The op that produces such rows."""
    score: float = 0.0

    @abstractmethod
    def read(self, rows: Floats, size: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        """Return boxes in pixels of an input of the given size, scores, and classes of the used rows."""

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] == 1 and shapes[0][3] == self.columns

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        if len(outputs) != 1 or (array := next(iter(outputs.values()))).shape[-1] != self.columns:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(f"post-processing '{self.name}': {shapes} is not one output of rows of {self.columns}.")
        boxes, scores, classes = self.read(array.reshape(-1, self.columns).astype(np.float64), place.input)
        used = np.flatnonzero(scores > self.score)
        best = used[np.argsort(-scores[used], kind="stable")]
        return Detections(place.to_image(boxes[best]), scores[best], classes[best].astype(np.int64))

    def append(self, tail: Tail) -> FoundRows:
        """The network already ends with these rows; from then on the host may compute them."""
        found = [value.defining for value in tail.outputs if value.defining is not None]
        if len(found) != 1 or not isinstance(found[0].op, self.op):
            raise UsageError(
                f"--post {self.name}: the network does not end with a {self.op.name.partition('.')[2]} "
                f"({tail.listed}); name the post-processing that its outputs are for."
            )
        tail.leave(found[0])
        return self.reading(found[0].op)

    def reading(self, op: Any) -> FoundRows:
        """Return the reader of the rows of this op."""
        return self


@dataclass(frozen=True)
class DetectionRows(FoundRows):
    """Rows of seven: index in the batch, class, score, and a box as fractions of the input. `center`: the box is center
    and size, not corners; `pixels`: it is in pixels of the input; `background`: class 0 is none.
    """

    name = "detection-rows"
    columns = 7
    op = top.DetectionOutput
    center: bool = False
    pixels: bool = False
    background: bool = True

    def read(self, rows: Floats, size: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        # what is not used is filled with zeros or minus ones
        rows = rows[(rows[:, 0] == 0) & (rows[:, 1] >= int(self.background))]
        boxes = around(rows[:, 3:5], rows[:, 5:7]) if self.center else rows[:, 3:7]
        return boxes if self.pixels else boxes * np.tile(size, 2), rows[:, 2], rows[:, 1] - int(self.background)

    def reading(self, op: top.DetectionOutput) -> DetectionRows:
        return replace(self, background=op.background_label_id == 0)


@dataclass(frozen=True)
class YoloRows(FoundRows):
    """Rows of six, as in Caffe's YoloDetection: center and size as fractions of the input, class, score."""

    name = "yolo-rows"
    columns = 6
    op = top.YoloDetection

    def read(self, rows: Floats, size: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        return around(rows[:, :2], rows[:, 2:4]) * np.tile(size, 2), rows[:, 5], rows[:, 4]


@dataclass(frozen=True)
class FaceRows(FoundRows):
    """Rows of fifteen, as in Caffe's RetinaFaceDetection: corners in pixels of the input, score, points."""

    name = "face-rows"
    columns = 15
    op = top.RetinaFaceDetection

    def read(self, rows: Floats, size: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        return rows[:, :4], rows[:, 4], np.zeros(len(rows))
