"""What detectors have in common that choose among boxes on the host, or at the end of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import UsageError
from tpuc_images.placing import Placement

from tpuc_eval.postprocess.boxes import Choice, Floats, Suppression, choose, suppress
from tpuc_eval.postprocess.rows import DetectionRows
from tpuc_eval.protocols import Detections, Postprocess

if TYPE_CHECKING:
    from tpuc_eval.tail import Candidates, Tail


@dataclass(frozen=True)
class Detector(Postprocess):
    """Base of detectors that leave the choice of boxes to the host. `score`: the least that counts; `iou`: overlap from
    which a box suppresses others of its class; `keep`: boxes per image; `every_class`: a box may count for several.
    """

    finds_objects = True
    score: float = 0.01
    iou: float = 0.45
    keep: int = 200
    every_class: bool = True

    def append(self, tail: Tail) -> Postprocess:
        """See Postprocess."""
        self.check_ends(tail)
        found = self.compose(tail)
        if not self.every_class and found.scores.tensor.dims[2] > 1:
            raise UsageError(
                f"--post {self.name}: in a network, boxes always count for every class; leave out every-class."
            )
        tail.finish(tail.detections(found, score=self.score, iou=self.iou, keep=self.keep))
        return DetectionRows(background=False)

    def check_ends(self, tail: Tail) -> None:
        """Raise UsageError for outputs of a network that the post-processing does not fit."""
        if not self.ends(tail):
            width, height = tail.size
            raise UsageError(
                f"--post {self.name}: the outputs ({tail.listed}) of a network with {width}x{height} images do not "
                "fit; choose another post-processing."
            )

    def compose(self, tail: Tail) -> Candidates:
        """The boxes to choose from, as ops behind outputs that fit."""
        raise UsageError(f"--post {self.name}: this post-processing cannot be appended to a network; leave it out.")

    def select(self, boxes: Floats, scores: Floats, place: Placement) -> Detections:
        """What is found in an image: `boxes` `[n, 4]` in pixels of the input, `scores` `[n, classes]`."""
        found = self.choose(boxes, scores)
        return Detections(place.to_image(boxes[found.rows].astype(np.float64)), found.scores, found.classes)

    def choose(self, boxes: Floats, scores: Floats, suppressed: Suppression = suppress) -> Choice:
        """See the function `choose`."""
        return choose(
            boxes,
            scores,
            score=self.score,
            iou=self.iou,
            keep=self.keep,
            every_class=self.every_class,
            suppressed=suppressed,
        )
