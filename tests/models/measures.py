"""How well a network does on the labeled data, by the measuring rules that come with the data."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tpuc_images.resize import resize

Array = NDArray[Any]
Pixels = NDArray[np.uint8]
Outputs = Sequence[Array]

FACE = (72.0, 72.0, 178.0, 190.0)  # where the face is in every 250x250 portrait
PORTRAIT = 250


def load_rgb(path: Path) -> Image.Image:
    """A decoded image."""
    with Image.open(path) as image:
        return image.convert("RGB")


def center_crop(image: Image.Image, size: int) -> Pixels:
    """Short side to size * 256 / 224 (area when shrinking, bilinear when enlarging), then the center. The published
    numbers count parts of pixels: whole pixels alone cost a small network two answers of 60.
    """
    short = round(size * 256 / 224)
    width, height = image.size
    factor = short / min(width, height)
    pixels = resize(np.asarray(image), round(height * factor), round(width * factor))
    top, left = ((extent - size) // 2 for extent in pixels.shape[:2])
    return pixels[top : top + size, left : left + size]


def stretch(image: Image.Image, height: int, width: int) -> Pixels:
    """The whole image in another size."""
    return resize(np.asarray(image), height, width)


def letterbox(image: Image.Image, size: int) -> Pixels:
    """Top left, the rest filled with 114."""
    factor = size / max(image.size)
    inner = stretch(image, round(image.size[1] * factor), round(image.size[0] * factor))
    whole = np.full((size, size, 3), 114, np.uint8)
    whole[: inner.shape[0], : inner.shape[1]] = inner
    return whole


def nchw(pixels: Pixels, *, bgr: bool = False, mean: float = 0.0, scale: float = 1.0) -> Array:
    """`(pixel - mean) * scale` as `[1, c, h, w]` float32."""
    ordered = pixels[..., ::-1] if bgr else pixels
    return np.ascontiguousarray(((ordered.astype(np.float32) - mean) * scale).transpose(2, 0, 1)[None], np.float32)


def overlap(box: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of (x1, y1, x2, y2)."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (box, other)]
    return shared / (areas[0] + areas[1] - shared)


def finds_the_face(score: float, box: Sequence[float]) -> bool:
    """`box` as fractions of the image."""
    return score > 0.5 and overlap([value * PORTRAIT for value in box], FACE) >= 0.4


def blazeface_top(outputs: Outputs) -> tuple[float, list[float]]:
    """Anchors: 16x16 cells with 2, 8x8 cells with 6, at the cell centers; offsets in pixels of 128."""
    boxes, logits = (o[0] for o in outputs)
    centers: list[tuple[float, float]] = []
    for cells, count in ((16, 2), (8, 6)):
        for y in range(cells):
            for x in range(cells):
                centers += [((x + 0.5) / cells, (y + 0.5) / cells)] * count
    best = int(np.argmax(logits[:, 0]))
    dx, dy, w, h = boxes[best, :4] / 128
    x, y = centers[best][0] + dx, centers[best][1] + dy
    score = 1 / (1 + np.exp(-float(logits[best, 0])))
    return score, [x - w / 2, y - h / 2, x + w / 2, y + h / 2]


def ultraface_top(outputs: Outputs) -> tuple[float, list[float]]:
    """Boxes are decoded in the network."""
    scores, boxes = (o[0] for o in outputs)
    best = int(np.argmax(scores[:, 1]))
    return float(scores[best, 1]), [float(v) for v in boxes[best]]


def yunet_top(outputs: Outputs) -> tuple[float, list[float]]:
    """Score sqrt(cls * obj); center offset and log size in cells of 8, 16, 32 pixels."""
    best: tuple[float, list[float]] = (0.0, [0.0] * 4)
    for level, stride in enumerate((8, 16, 32)):
        cls, obj, bbox = outputs[level][0, :, 0], outputs[3 + level][0, :, 0], outputs[6 + level][0]
        score = np.sqrt(np.clip(cls, 0, 1) * np.clip(obj, 0, 1))
        index = int(np.argmax(score))
        if score[index] > best[0]:
            cells = 320 // stride
            x = (index % cells + bbox[index, 0]) * stride / 320
            y = (index // cells + bbox[index, 1]) * stride / 320
            w, h = np.exp(bbox[index, 2:]) * stride / 320
            best = (float(score[index]), [x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    return best


@dataclass(frozen=True)
class Task:
    """A network with its data: inputs in the network's own form, and whether outputs are right for a sample."""

    file: str
    calibration: Callable[[Path], list[Array]]
    samples: Callable[[Path], list[Array]]
    labels: Callable[[Path], list[int]]
    right: Callable[[Outputs, int], bool]


def image_files(folder: Path) -> list[Path]:
    """The images of a folder in order."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))


def image_labels(folder: Path) -> list[int]:
    """Their classes, from `labels.tsv`."""
    with (folder / "labels.tsv").open() as stream:
        rows = {row["file"]: int(row["index"]) for row in csv.DictReader(stream, delimiter="\t")}
    return [rows[path.name] for path in image_files(folder)]


def _with(prepare: Callable[[Image.Image], Array], folder: str) -> Callable[[Path], list[Array]]:
    return lambda data: [prepare(load_rgb(path)) for path in image_files(data / folder)]


def _classifier(file: str, size: int, background: int) -> Task:
    def prepare(image: Image.Image) -> Array:
        return nchw(center_crop(image, size), mean=127.5, scale=1 / 127.5)

    return Task(
        file,
        _with(prepare, "imagenet_calib"),
        _with(prepare, "imagenet_eval"),
        lambda data: image_labels(data / "imagenet_eval"),
        lambda outputs, label: int(np.argmax(outputs[0])) == label + background,
    )


def _faces(
    file: str, prepare: Callable[[Image.Image], Array], top: Callable[[Outputs], tuple[float, list[float]]]
) -> Task:
    return Task(
        file,
        _with(prepare, "imagenet_calib"),
        _with(prepare, "lfw"),
        lambda data: [1] * len(image_files(data / "lfw")),
        lambda outputs, _: finds_the_face(*top(outputs)),
    )


def _yolox(image: Image.Image) -> Array:
    return nchw(letterbox(image, 416), bgr=True)


TASKS: Mapping[str, Task] = {
    "mobilenet_v1": _classifier("mobilenet_v1_0.25_128_bn.onnx", 128, 0),
    "mobilenet_v2": _classifier("mobilenet_v2_1.0_224_dequant.onnx", 224, 1),
    "blazeface": _faces(
        "blazeface.onnx", lambda image: nchw(stretch(image, 128, 128), mean=127.5, scale=1 / 127.5), blazeface_top
    ),
    "ultraface": _faces(
        "ultraface_slim_320.onnx", lambda image: nchw(stretch(image, 240, 320), mean=127, scale=1 / 128), ultraface_top
    ),
    "yunet": _faces("yunet_n_320.onnx", lambda image: nchw(stretch(image, 320, 320), bgr=True), yunet_top),
    "yolox": Task(
        "yolox_nano_416.onnx",
        _with(_yolox, "imagenet_calib"),
        _with(_yolox, "coco"),
        lambda data: [0] * len(image_files(data / "coco")),
        lambda _, __: True,
    ),
}
