"""Base of detectors that select boxes on the host, or at the end of the network."""

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
    """Base of detectors whose boxes are selected on the host. `score`: minimum score; `iou`: overlap from which a box
    suppresses others of its class; `keep`: boxes per image; `every_class`: a box may count for several classes.
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
        """Raise UsageError if the post-processing does not fit a network's outputs."""
        if not self.ends(tail):
            width, height = tail.size
            raise UsageError(
                f"--post {self.name}: the outputs ({tail.listed}) of a network with {width}x{height} images do not "
                "fit; choose another post-processing."
            )

    def compose(self, tail: Tail) -> Candidates:
        """Return the candidate boxes, as ops appended to fitting outputs."""
        raise UsageError(f"--post {self.name}: this post-processing cannot be appended to a network; leave it out.")

    def select(self, boxes: Floats, scores: Floats, place: Placement) -> Detections:
        """Return the detections in an image from `boxes` `[n, 4]` in pixels of the input and `scores` `[n,
        classes]`.
        """
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
