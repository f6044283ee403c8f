"""The most likely classes, selected on the host or in the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import UsageError
from tpuc.api.evaluation import Array

from tpuc_eval.postprocess.scores import Scores
from tpuc_eval.protocols import Outputs, Postprocess, Sample

if TYPE_CHECKING:
    from tpuc_eval.tail import Tail

COLUMNS = 7
"""Columns of a row: index in the batch, class, score, and a box."""


@dataclass(frozen=True)
class Classes(Scores):
    """Like `scores`. In a file: the `keep` best classes, as rows with a score; their boxes are meaningless."""

    name = "classes"
    keep: int = 5

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 1 and self.keep <= max(shapes[0][1:], default=0) == np.prod(shapes[0][1:])

    def append(self, tail: Tail) -> ClassRows:
        """See Postprocess."""
        from tpuc_eval.tail import LOWEST, Anchors, Candidates

        found = dict(zip(tail.names, tail.outputs, strict=True))
        chosen = found.get(self.output) if self.output else next(iter(found.values()))
        if chosen is None or (len(found) > 1 and not self.output):
            raise UsageError(
                f"--post {self.name}: the network has {len(found)} outputs; write {self.name}{{output=NAME}} with one "
                f"of {', '.join(found)}."
            )
        images, *extents = chosen.tensor.dims
        count = max(extents, default=1)
        if int(np.prod(extents)) != count or not 0 < self.keep <= count:
            raise UsageError(
                f"--post {self.name}: output '{chosen.name}' is {'x'.join(map(str, chosen.tensor.dims))} and "
                f"{self.keep} classes are to be kept; it needs one score per class, and keep is at most the number of "
                "classes."
            )
        scores = tail.reshape(chosen, images, 1, count)
        offsets, whole = tail.constant(np.zeros((images, 1, 4))), np.ones((1, 2))
        found = Candidates(offsets, scores, Anchors(whole / 2, whole))
        rows = tail.detections(found, score=LOWEST, iou=1.0, keep=self.keep)
        tail.finish(rows)
        return ClassRows(count)


@dataclass(frozen=True)
class ClassRows(Postprocess):
    """Rows of the best of `classes` classes, as `classes` leaves them in a file; the scores of all others are minus
    infinity.
    """

    name = "class-rows"
    classes: int = 0

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        given: Sequence[Any] = list(outputs.values())
        if len(given) != 1 or given[0].shape[-1] != COLUMNS:
            raise UsageError(f"post-processing '{self.name}': the outputs are not one array of rows of {COLUMNS}.")
        count = max(1, len(sample.rows))
        images = given[0].reshape(len(given[0]), -1, COLUMNS)[:count]
        scores = np.full((count, self.classes), -np.inf)
        for image, rows in zip(scores, images, strict=True):
            image[rows[:, 1].astype(np.int64)] = rows[:, 2]
        return scores if count == 1 else scores.mean(axis=0)
