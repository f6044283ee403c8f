"""YOLOX boxes out of the raw output, and mAP at IoU 0.5 by the measuring rules that come with the data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Boxes = NDArray[np.float64]
"""Rows of x1, y1, x2, y2, score."""

LEAST_SCORE = 0.01
SUPPRESSED_FROM = 0.45
FOUND_FROM = 0.5
COLUMNS = 4


def decode_yolox(output: NDArray[Any], size: int) -> dict[int, Boxes]:
    """Boxes by class index in pixels of the network's input, after suppression within a class."""
    cells = [(size // stride, stride) for stride in (8, 16, 32)]
    places = np.concatenate([np.stack(np.meshgrid(range(n), range(n)), -1).reshape(-1, 2) * s for n, s in cells])
    strides = np.concatenate([np.full((n * n, 1), s) for n, s in cells])
    values = output.reshape(len(strides), -1).astype(np.float64)
    centers, extents = values[:, :2] * strides + places, np.exp(values[:, 2:4]) * strides
    corners = np.concatenate([centers - extents / 2, centers + extents / 2], axis=1)
    scores = values[:, 4:5] * values[:, 5:]
    result: dict[int, Boxes] = {}
    for label in np.flatnonzero((scores >= LEAST_SCORE).any(axis=0)):
        kept = scores[:, label] >= LEAST_SCORE
        result[int(label)] = _suppress(np.concatenate([corners[kept], scores[kept, label : label + 1]], axis=1))
    return result


def _suppress(boxes: Boxes) -> Boxes:
    boxes = boxes[np.argsort(-boxes[:, COLUMNS], kind="stable")]
    kept: list[int] = []
    for row in range(len(boxes)):
        if not kept or overlaps(boxes[row], boxes[kept]).max() <= SUPPRESSED_FROM:
            kept.append(row)
    return boxes[kept]


def overlaps(box: Boxes, others: Boxes) -> Boxes:
    """Intersection over union of one box with many."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    area = (box[2] - box[0]) * (box[3] - box[1])
    return shared / (area + np.prod(others[:, 2:4] - others[:, :2], axis=1) - shared)


def mean_average_precision(outputs: Sequence[NDArray[Any]], folder: Path, size: int) -> float:
    """Over the classes that the images show; crowds count neither for nor against."""
    notes: Mapping[str, Any] = json.loads((folder / "instances.json").read_text())
    classes = [item["id"] for item in sorted(notes["categories"], key=lambda item: item["id"])]
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    ids = {item["file_name"]: item["id"] for item in notes["images"]}
    found: list[dict[int, Boxes]] = []
    for output, file in zip(outputs, files, strict=True):
        with Image.open(file) as image:
            factor = size / max(image.size)
        boxes = decode_yolox(output, size)
        found.append({label: rows / np.array([factor] * 4 + [1.0]) for label, rows in boxes.items()})
    precisions: list[float] = []
    for label, category in enumerate(classes):
        wanted: list[tuple[Boxes, Boxes]] = []
        for file in files:
            mine = [n for n in notes["annotations"] if n["image_id"] == ids[file.name] and n["category_id"] == category]
            crowd = np.array([bool(n.get("iscrowd")) for n in mine], bool)
            corners = np.array([n["bbox"] for n in mine], np.float64).reshape(-1, 4)
            corners[:, 2:] += corners[:, :2]  # from extents
            wanted.append((corners[~crowd], corners[crowd]))
        if any(len(boxes) for boxes, _ in wanted):
            precisions.append(_average_precision([one.get(label, np.zeros((0, 5))) for one in found], wanted))
    return float(np.mean(precisions))


def _average_precision(found: Sequence[Boxes], wanted: Sequence[tuple[Boxes, Boxes]]) -> float:
    hits: list[tuple[float, bool]] = []
    for boxes, (truths, crowds) in zip(found, wanted, strict=True):
        free = np.ones(len(truths), bool)
        for box in boxes:
            shared = np.where(free, overlaps(box, truths), 0.0) if len(truths) else np.zeros(0)
            best = int(np.argmax(shared)) if len(shared) else -1
            if best >= 0 and shared[best] >= FOUND_FROM:
                free[best] = False
                hits.append((float(box[COLUMNS]), True))
            elif not _in_crowd(box, crowds):
                hits.append((float(box[COLUMNS]), False))
    hits.sort(key=lambda hit: -hit[0])
    right = np.cumsum([hit for _, hit in hits])
    recall = right / sum(len(truths) for truths, _ in wanted)
    precision = right / np.arange(1, len(hits) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1] if hits else precision
    levels = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
    return float(np.mean([highest[level] if level < len(highest) else 0.0 for level in levels]))


def _in_crowd(box: Boxes, crowds: Boxes) -> bool:
    """Does at least half of the box lie in a crowd?"""
    low, high = np.maximum(box[:2], crowds[:, :2]), np.minimum(box[2:4], crowds[:, 2:4])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    area = max(float((box[2] - box[0]) * (box[3] - box[1])), 1e-9)
    return bool((shared / area >= FOUND_FROM).any())
