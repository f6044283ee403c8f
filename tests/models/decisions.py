"""What networks decide, and how often two forms of one decide the same: by the measuring rules of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.models.mean_precision import Boxes, decode_yolox, overlaps
from tests.models.measures import (
    Outputs,
    blazeface_top,
    finds_the_face,
    image_files,
    load_rgb,
    nchw,
    stretch,
)
from tests.models.rows import ROWS, Row, clip_errors

Array = NDArray[Any]
Agreement = tuple[int, int]
"""Decisions that are the same, and all of them."""

LEAST_DETECTION = 0.25
"""From this score on a detection is one: what is below counts for mAP only."""
MATCHED_FROM = 0.5
"""Overlap of two boxes that are the same detection."""


@dataclass(frozen=True)
class Deciding:
    """A network with its data, and the agreement of two runs over them."""

    row: Row
    agreement: Callable[[Sequence[Outputs], Sequence[Outputs]], Agreement]


def same_answers(answer: Callable[[Outputs], object]) -> Callable[[Sequence[Outputs], Sequence[Outputs]], Agreement]:
    """One decision per sample."""

    def agreement(wanted: Sequence[Outputs], got: Sequence[Outputs]) -> Agreement:
        return sum(answer(a) == answer(b) for a, b in zip(wanted, got, strict=True)), len(wanted)

    return agreement


def same_order(wanted: Sequence[Outputs], got: Sequence[Outputs], data: Path) -> Agreement:
    """Pairs of clips of which the same one is the more anomalous."""
    first, second = (clip_errors(outputs, data) for outputs in (wanted, got))
    pairs = [(a, b) for a in range(len(first)) for b in range(a)]
    return sum((first[a] > first[b]) == (second[a] > second[b]) for a, b in pairs), len(pairs)


def same_detections(wanted: Sequence[Outputs], got: Sequence[Outputs], size: int) -> Agreement:
    """Detections of either run; one that both have counts once."""
    same = total = 0
    for pair in zip(wanted, got, strict=True):
        first, second = (_detections(outputs[0], size) for outputs in pair)
        for label in {*first, *second}:
            mine, theirs = (one.get(label, np.zeros((0, 5))) for one in (first, second))
            matched = _matched(mine, theirs)
            same += matched
            total += len(mine) + len(theirs) - matched
    return same, total


def _detections(output: Array, size: int) -> dict[int, Boxes]:
    found = decode_yolox(output, size)
    return {label: boxes[boxes[:, 4] >= LEAST_DETECTION] for label, boxes in found.items()}


def _matched(boxes: Boxes, others: Boxes) -> int:
    """Boxes with a partner of their own, best scores first."""
    free = np.ones(len(others), bool)
    for box in boxes if len(others) else ():
        shared = np.where(free, overlaps(box, others), 0.0)
        free[np.argmax(shared)] &= shared.max() < MATCHED_FROM
    return int((~free).sum())


SHAPE = 240, 320
"""Height and width of UltraFace's images."""
LEVELS = ((8, (10, 16, 24)), (16, (32, 48)), (32, (64, 96)), (64, (128, 192, 256)))
"""Of its prior boxes: pixels per cell, and edges of the boxes."""
CENTER_VARIANCE, SIZE_VARIANCE = 0.1, 0.2


def _priors() -> Array:
    """Rows of center and extents as fractions of the image, in the order of UltraFace's outputs."""
    height, width = SHAPE
    rows = [
        ((x + 0.5) * stride / width, (y + 0.5) * stride / height, edge / width, edge / height)
        for stride, edges in LEVELS
        for y, x, edge in product(range(-(-height // stride)), range(width // stride), edges)
    ]
    return np.minimum(np.array(rows), 1.0)


def raw_ultraface_top(outputs: Outputs) -> tuple[float, list[float]]:
    """The best box of the Caffe network, whose boxes are relative to prior ones."""
    boxes, scores = (one[0] for one in outputs)
    best = int(np.argmax(scores[:, 1]))
    prior = _priors()[best]
    center = boxes[best, :2] * CENTER_VARIANCE * prior[2:] + prior[:2]
    extents = np.exp(boxes[best, 2:] * SIZE_VARIANCE) * prior[2:]
    return float(scores[best, 1]), [*(center - extents / 2), *(center + extents / 2)]


def _faces_of(name: str, model: str, top: Callable[[Outputs], tuple[float, list[float]]]) -> Row:
    """The task of a face detector with its weights in another format."""

    def finds(outputs: Outputs) -> object:
        return finds_the_face(*top(outputs))

    return replace(
        ROWS[name], model=model, vendor={}, answer=finds, right=lambda _: lambda outputs, _index: bool(finds(outputs))
    )


FACE_CROP, BACKGROUND_CROP = slice(62, 194), slice(0, 60)


def _crops(size: int) -> Callable[[Path], list[Array]]:
    """A face and a background of every portrait, as MTCNN takes them: transposed."""

    def read(data: Path) -> list[Array]:
        images = [np.asarray(load_rgb(path)) for path in image_files(data / "lfw")]
        parts = [image[where, where] for image in images for where in (FACE_CROP, BACKGROUND_CROP)]
        return [_for_mtcnn(Image.fromarray(part), size) for part in parts]

    return read


def _for_mtcnn(image: Image.Image, size: int) -> Array:
    pixels = nchw(stretch(image, size, size), mean=127.5, scale=0.0078125)
    return np.ascontiguousarray(pixels.transpose(0, 1, 3, 2))


def _mtcnn(stage: int, size: int) -> Deciding:
    def is_face(outputs: Outputs) -> object:
        return bool(outputs[-1].reshape(-1)[1] > 0.5)

    row = Row(
        f"caffe/mtcnn_det{stage}",
        lambda data: [_for_mtcnn(load_rgb(path), size) for path in image_files(data / "imagenet_calib")],
        _crops(size),
        lambda _: lambda outputs, index: is_face(outputs) == (index % 2 == 0),
        is_face,
        {},
    )
    return Deciding(row, same_answers(is_face))


def deciding(name: str, data: Path) -> Deciding:
    """A network by name, with its data in a folder."""
    if name == "ad01":
        return Deciding(ROWS[name], lambda wanted, got: same_order(wanted, got, data))
    if name == "yolox":
        return Deciding(ROWS[name], lambda wanted, got: same_detections(wanted, got, 416))
    if name in OTHER_FORMATS:
        return OTHER_FORMATS[name]
    row = ROWS[name]
    assert row.answer is not None
    return Deciding(row, same_answers(row.answer))


def _other_format(name: str, model: str, top: Callable[[Outputs], tuple[float, list[float]]]) -> Deciding:
    row = _faces_of(name, model, top)
    assert row.answer is not None
    return Deciding(row, same_answers(row.answer))


OTHER_FORMATS: Mapping[str, Deciding] = {
    "blazeface_tflite": _other_format("blazeface", "tflite/face_detection_front.tflite", blazeface_top),
    "ultraface_caffe": _other_format("ultraface", "caffe/ultraface_slim_320", raw_ultraface_top),
    "mtcnn_det1": _mtcnn(1, 12),
    "mtcnn_det2": _mtcnn(2, 24),
    "mtcnn_det3": _mtcnn(3, 48),
}
"""The same weights as another row, or networks that the vendor's table does not have."""

NAMES = (*ROWS, *OTHER_FORMATS)
