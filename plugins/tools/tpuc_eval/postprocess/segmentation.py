"""The class of every pixel, computed on the host or in the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.api import UsageError
from tpuc.api.evaluation import Array

from tpuc_eval.postprocess.scores import named_output
from tpuc_eval.protocols import Outputs, Postprocess, Sample

if TYPE_CHECKING:
    from tpuc_eval.tail import Tail

_AXES = 4


@dataclass(frozen=True)
class Segmentation(Postprocess):
    """Scores `[1, classes, h, w]`: every pixel has the class with the largest score, the first of equal ones."""

    name = "segmentation"

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == _AXES and shapes[0][1] > 1

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        scores = named_output(self.name, outputs, "")
        if not self.fits([scores.shape], sample):
            raise UsageError(f"post-processing '{self.name}': the output {scores.shape} is not [1, classes, h, w].")
        return scores[0].argmax(axis=0)

    def append(self, tail: Tail) -> ClassMap:
        """See Postprocess."""
        from tpuc_ops import top

        if not self.fits(tail.shapes, tail.sample):
            raise UsageError(f"--post {self.name}: the outputs ({tail.listed}) are not one [1, classes, h, w].")
        (scores,) = tail.outputs
        tail.finish(tail(top.Arg(axis=1), scores))
        return ClassMap(scores.tensor.dims[1])


@dataclass(frozen=True)
class ClassMap(Postprocess):
    """The class of every pixel out of `classes`, `[1, 1, h, w]`, as `segmentation` leaves it in a file."""

    name = "class-map"
    classes: int = 0

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        found = named_output(self.name, outputs, "")
        if found.ndim != _AXES or found.shape[1] != 1:
            raise UsageError(f"post-processing '{self.name}': the output {found.shape} is not [1, 1, h, w].")
        return found[0, 0].astype(int)
