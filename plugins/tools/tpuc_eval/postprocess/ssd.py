"""Detectors with prior boxes, and outputs that already contain boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError
from tpuc_ops import top

from tpuc_eval.postprocess.boxes import Floats, around, placement_of, softmax
from tpuc_eval.postprocess.composed import grown_sizes
from tpuc_eval.postprocess.detector import Detector
from tpuc_eval.postprocess.rows import DetectionRows
from tpuc_eval.postprocess.scores import only_row
from tpuc_eval.protocols import Detections, Outputs, Postprocess, Sample
from tpuc_eval.tail import Anchors, Candidates, Tail

_DECODING = (top.Exp, top.Sigmoid, top.Add, top.AddConst, top.Sub, top.SubConst, top.Mul, top.MulConst)
"""The ops by which exported networks decode boxes themselves, step by step."""
VARIANCES = (0.1, 0.1, 0.2, 0.2)
"""SSD's scales of center offsets and size logarithms, as its PriorBox layers state them."""


@dataclass(frozen=True)
class Ssd(Detector):
    """Offsets from prior boxes, and class scores with the background first, in outputs of 4 n and n classes values.

    The priors are a third output in PriorBox format (two rows: corners as fractions of the input, and variances), or a
    .npy file of corners `[n, 4]`. `softmax`: the host applies the softmax.
    """

    name = "ssd"
    priors: str = ""
    variances: tuple[float, ...] = VARIANCES
    softmax: bool = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 3 and any(_is_priors(shape) for shape in shapes)

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        priors, variances, rest = self._split(outputs)
        offsets, scores = self._heads(rest, len(priors))
        if self.softmax:
            scores = softmax(scores)
        boxes = decode_offsets(offsets, priors, variances) * np.tile(place.input, 2)
        return self.select(boxes, scores[:, 1:], place)

    def _split(self, outputs: Outputs) -> tuple[Floats, Floats, Mapping[str, NDArray[Any]]]:
        """Return priors `[n, 4]`, variances, and the other outputs."""
        given = {name: array for name, array in outputs.items() if _is_priors(array.shape)}
        rest = {name: array for name, array in outputs.items() if name not in given}
        if self.priors:
            return _read_priors(self.name, self.priors), np.array(self.variances, np.float64), outputs
        if len(given) != 1:
            raise UsageError(
                f"post-processing '{self.name}': no output holds prior boxes; write {self.name}{{priors=FILE.npy}}."
            )
        corners, variances = next(iter(given.values()))[0].reshape(2, -1, 4)
        return corners, variances, rest

    def _heads(self, rest: Mapping[str, NDArray[Any]], count: int) -> tuple[Floats, Floats]:
        """Return offsets `[n, 4]` and scores `[n, classes]`; if both have four values, offsets come first."""
        heads = [array[0].reshape(-1) for array in rest.values()]
        if len(heads) == 2 and heads[0].size != 4 * count:
            heads.reverse()
        if len(heads) != 2 or heads[0].size != 4 * count or heads[1].size % count or heads[1].size < 2 * count:
            sizes = ", ".join(f"{name} {array.shape}" for name, array in rest.items())
            raise UsageError(
                f"post-processing '{self.name}': {sizes} are not offsets and scores of {count} prior boxes; name "
                "another --postprocess."
            )
        return heads[0].reshape(-1, 4), heads[1].reshape(count, -1)

    def append(self, tail: Tail) -> Postprocess:
        """See Detector; a network that ends with a DetectionOutput already has its boxes."""
        rows = DetectionRows()
        return rows.append(tail) if rows.fits(tail.shapes, tail.sample) else super().append(tail)

    def compose(self, tail: Tail) -> Candidates:
        """See Detector; raises UsageError if the network computes the priors."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, value in zip(tail.names, tail.outputs, strict=True):
            constant = tail.known(value)
            arrays[name] = np.broadcast_to(np.float32(0), value.tensor.dims) if constant is None else constant
            if constant is None and not self.priors and _is_priors(value.tensor.dims):
                raise UsageError(
                    f"--post {self.name}: the network computes its prior boxes '{name}'; write "
                    f"{self.name}{{priors=FILE.npy}} with --output-names that leave it out."
                )
        corners, variances, rest = self._split(arrays)
        self._heads(rest, len(corners))
        heads = [value for name, value in zip(tail.names, tail.outputs, strict=True) if name in rest]
        if heads[0].tensor.size != 4 * len(corners) * heads[0].tensor.dims[0]:
            heads.reverse()
        images = heads[0].tensor.dims[0]
        offsets, scores = (
            tail.reshape(head, images, len(corners), head.tensor.size // len(corners) // images) for head in heads
        )
        if self.softmax:
            scores = tail(top.Softmax(axis=2), scores)
        centers, sizes = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        return Candidates(offsets, tail.part(scores, 1), Anchors(centers, sizes, variances=variances))


@dataclass(frozen=True)
class Boxes(Detector):
    """One output of boxes `[n, 4]` and one of scores `[n, classes]`: x1, y1, x2, y2 as fractions of the input, or with
    `pixels` in pixels of it. `background`: the first class is none.
    """

    name = "boxes"
    pixels: bool = False
    background: bool = True

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        return len(shapes) == 2 and sum(shape[-1] == 4 for shape in shapes) == 1 and shapes[0][:-1] == shapes[1][:-1]

    def __call__(self, outputs: Outputs, sample: Sample) -> Detections:
        place = placement_of(self.name, sample)
        heads = [array.reshape(-1, array.shape[-1]) for array in only_row(outputs)]
        boxes = [head for head in heads if head.shape[1] == 4]
        scores = [head for head in heads if head.shape[1] != 4]
        if len(boxes) != 1 or len(scores) != 1 or len(boxes[0]) != len(scores[0]):
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise UsageError(f"post-processing '{self.name}': {shapes} are not boxes and scores; choose another one.")
        found = boxes[0] if self.pixels else boxes[0] * np.tile(place.input, 2)
        return self.select(found, scores[0][:, 1:] if self.background else scores[0], place)

    def recognized(self, tail: Tail) -> Boxes:
        """Raise UsageError if no op after the last convolutions can have turned offsets into corners."""
        if not tail.computes(*_DECODING):
            raise UsageError(
                f"--post {self.name}: {tail.listed} come directly from convolutions, so they are offsets from prior "
                "boxes; write ssd{priors=FILE.npy}."
            )
        return self

    def compose(self, tail: Tail) -> Candidates:
        """See Detector."""
        boxes, scores = sorted(tail.outputs, key=lambda value: value.tensor.dims[-1] != 4)
        images, count = boxes.tensor.dims[0], boxes.tensor.size // boxes.tensor.dims[0] // 4
        boxes = tail.reshape(boxes, images, count, 4)
        scores = tail.reshape(scores, images, count, scores.tensor.dims[-1])
        low, high = tail.part(boxes, 0, 2), tail.part(boxes, 2)
        image = tail.size if self.pixels else (1, 1)
        whole = np.tile(np.array(image, np.float64), (count, 1))
        grown = grown_sizes(tail, tail(top.Sub(), high, low), whole)
        offsets = tail.concat(2, tail(top.Add(), low, high), grown)
        variances = np.concatenate([0.5 / whole, np.ones_like(whole)], axis=1)
        anchors = Anchors(np.zeros_like(whole), whole, image, variances)
        return Candidates(offsets, tail.part(scores, int(self.background)), anchors)


def decode_offsets(offsets: NDArray[Any], priors: Floats, variances: NDArray[Any]) -> Floats:
    """Decode offsets to priors, all as fractions: centers move by fractions of the prior, sizes are scaled by
    exponentials.
    """
    size = priors[:, 2:] - priors[:, :2]
    center = (priors[:, :2] + priors[:, 2:]) / 2
    variances = np.broadcast_to(variances, priors.shape)
    return around(center + offsets[:, :2] * variances[:, :2] * size, np.exp(offsets[:, 2:] * variances[:, 2:]) * size)


def _is_priors(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[1] == 2 and shape[2] % 4 == 0


def _read_priors(name: str, file: str) -> Floats:
    try:
        corners: Any = np.load(Path(file), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UsageError(
            f"{file}: not a .npy file ({error}). {name}{{priors=FILE.npy}} needs corners [n, 4]."
        ) from error
    if np.ndim(corners) != 2 or np.shape(corners)[1] != 4:
        raise UsageError(f"{file}: does not hold one array [n, 4]. Give corners as fractions of the input.")
    return np.asarray(corners, np.float64)
