"""Draw detections into a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageDraw
from tpuc_images.images import upright

from tpuc_eval.postprocess.yolo_tasks import SEEN
from tpuc_eval.protocols import Detections

COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000")
BLENDED = 0.6
"""Weight of the class color in a mask's pixels."""


def draw(picture: Path, found: Detections, labels: Sequence[str], target: Path) -> None:
    """Return the picture with boxes, and with masks and points if there are any."""
    colors = [COLORS[int(index) % len(COLORS)] for index in found.classes]
    image = _with_masks(upright(picture), found, colors)
    pen = ImageDraw.Draw(image)
    width = max(1, max(image.size) // 300)
    for index, (box, score, label) in enumerate(zip(found.boxes.tolist(), found.scores.tolist(), labels, strict=True)):
        color, corner = colors[index], (box[0] + width, max(0.0, box[1] - 12))
        if found.corners is None:
            pen.rectangle(box, outline=color, width=width)
        else:
            ends = [tuple(end) for end in found.corners[index].tolist()]
            pen.line([*ends, ends[0]], fill=color, width=width)
        for x, y, sure in found.points[index].tolist() if found.points is not None else ():
            if sure > SEEN:
                pen.ellipse((x - 2 * width, y - 2 * width, x + 2 * width, y + 2 * width), fill=color)
        words = f"{label} {score:.2f}"
        pen.rectangle(pen.textbbox(corner, words), fill=color)
        pen.text(corner, words, fill="white")
    image.save(target)


def _with_masks(image: Image.Image, found: Detections, colors: Sequence[str]) -> Image.Image:
    if not found.masks:
        return image
    pixels = np.asarray(image, np.float64).copy()
    for mask, color in zip(found.masks, colors, strict=True):
        own = mask.whole(*image.size)
        pixels[own] += BLENDED * (np.array(ImageColor.getrgb(color), np.float64) - pixels[own])
    return Image.fromarray(np.round(pixels).astype(np.uint8))
