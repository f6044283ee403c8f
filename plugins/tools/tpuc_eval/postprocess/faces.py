"""Face detectors whose boxes are decoded on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import UsageError
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of, sigmoid
from tpuc_eval.postprocess.composed import TYPICAL, cell_anchors, grown_sizes
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.grids import STRIDES, all_corners, cell_count
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.postprocess.ssd import VARIANCES, decode_offsets
from tpuc_eval.protocols import Detections, Outputs, Sample, plain_shape
from tpuc_eval.tail import Anchors, Candidates, Tail


@dataclass(frozen=True)
class BlazeFace(Detector):
    """Offsets in pixels from cell centers, with several anchors per cell: `strides` with `anchors` per cell."""

    name = "blazeface"
    iou: float = 0.3  # as in the authors' graph
    keep: int = 100
    every_class: bool = False
    strides: tuple[int, ...] = (8, 16)
    anchors: tuple[int, ...] = (2, 6)

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        count = len(self._centers(placement_of(self.name, sample).input))
        return sorted(shape[1:] for shape in shapes) == [(count, 1), (count, 16)]

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        centers = self._centers(place.input)
        heads = sorted(only_row(outputs), key=lambda head: head.shape[-1])
        if len(heads) != 2 or heads[0].shape != (len(centers), 1) or heads[1].shape[:1] != heads[0].shape[:1]:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(
                f"post-processing '{self.name}': {shapes} are not scores and boxes of {len(centers)} anchors; correct "
                "its options strides and anchors, or choose another post-processing."
            )
        boxes = around(centers + heads[1][:, :2], heads[1][:, 2:4])
        scores = sigmoid(heads[0])
        return self.select(boxes, scores, place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        sure, boxes = sorted(tail.outputs, key=lambda value: value.tensor.dims[-1])
        centers = self._centers(tail.size)
        levels = zip(self.strides, self.anchors, strict=True)
        sides = [np.full(count * cell_count(tail.size, [stride]), stride * TYPICAL) for stride, count in levels]
        sizes = np.concatenate(sides).astype(np.float64)[:, None].repeat(2, axis=1)
        moved, grown = tail.part(boxes, 0, 2), grown_sizes(tail, tail.part(boxes, 2, 4), sizes)
        variances = np.concatenate([1 / sizes, np.ones_like(sizes)], axis=1)
        anchors = Anchors(centers, sizes, tail.size, variances)
        return Candidates(tail.concat(2, moved, grown), tail(top.Sigmoid(), sure), anchors)

    def _centers(self, size: tuple[int, int]) -> np.ndarray:
        levels = [all_corners(size, [stride]) for stride in self.strides]
        parts = [
            np.repeat((cell + 0.5) * stride, count, axis=0)
            for (cell, stride), count in zip(levels, self.anchors, strict=True)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class RetinaFace(Detector):
    """Offsets `[n, 4]` from prior boxes, probabilities of background and face `[n, 2]`, and points `[n, 10]`. Every
    cell of `strides` has priors of its share of the `sizes`, in pixels.
    """

    name = "retinaface"
    score: float = 0.02  # this and the next as in the evaluation by its authors
    iou: float = 0.4
    strides: tuple[int, ...] = (8, 16, 32)
    sizes: tuple[float, ...] = (16, 32, 64, 128, 256, 512)

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        count = len(self._priors(placement_of(self.name, sample).input))
        return sorted(shape[1:] for shape in shapes) == [(count, 2), (count, 4), (count, 10)]

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        priors = self._priors(place.input)
        heads = {head.shape[1:]: head for head in only_row(outputs)}
        if not self.fits([plain_shape(array.shape) for array in outputs.values()], sample):
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(
                f"post-processing '{self.name}': {shapes} are not offsets, scores and points of {len(priors)} priors; "
                "correct its options strides and sizes, or choose another post-processing."
            )
        corners = around(priors[:, :2], priors[:, 2:])
        boxes = decode_offsets(heads[4,], corners, np.array(VARIANCES))
        return self.select(boxes, heads[2,][:, 1:], place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        sure, offsets, _ = sorted(tail.outputs, key=lambda value: value.tensor.dims[-1])
        priors = self._priors(tail.size)
        anchors = Anchors(priors[:, :2], priors[:, 2:], tail.size, np.array(VARIANCES))
        return Candidates(offsets, tail.part(sure, 1), anchors)

    def _priors(self, size: tuple[int, int]) -> Floats:
        """Return centers and sizes `[n, 4]` in pixels of the input."""
        own = np.array(self.sizes, np.float64).reshape(len(self.strides), -1)
        parts: list[Floats] = []
        for stride, sides in zip(self.strides, own, strict=True):
            places, _ = cell_anchors(size, [stride], 0.5)
            extents = np.tile(sides, len(places))[:, None].repeat(2, axis=1)
            parts.append(np.concatenate([np.repeat(places, len(sides), axis=0), extents], axis=1))
        return np.concatenate(parts)


@dataclass(frozen=True)
class YuNet(Detector):
    """Class, object, box, and landmarks for the cells of strides 8, 16, 32 each, in this order; the score is the root
    of class times object.
    """

    name = "yunet"
    keep: int = 100
    every_class: bool = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 12 and sum(shape[1] for shape in shapes[:3]) == cell_count(
            placement_of(self.name, sample).input
        )

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = only_row(outputs)
        if not self.fits([plain_shape(array.shape) for array in outputs.values()], sample):
            raise UsageError(
                f"post-processing '{self.name}': {len(heads)} outputs are not its twelve; choose another one."
            )
        sure, real, boxes = (np.concatenate(heads[start : start + 3]) for start in (0, 3, 6))
        cell, stride = all_corners(place.input)
        scores = np.sqrt(np.clip(sure, 0.0, 1.0) * np.clip(real, 0.0, 1.0))
        found = around((cell + boxes[:, :2]) * stride, np.exp(boxes[:, 2:]) * stride)
        return self.select(found, scores, place)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        sure, real, boxes = (tail.concat(1, *tail.outputs[start : start + 3]) for start in (0, 3, 6))
        sure, real = (tail(top.Clip(min=0.0, max=1.0), value) for value in (sure, real))
        places, stride = cell_anchors(tail.size, STRIDES)
        scores = tail(top.Sqrt(), tail(top.Mul(), sure, real))
        return Candidates(boxes, scores, Anchors(places, np.tile(stride, 2), tail.size))
