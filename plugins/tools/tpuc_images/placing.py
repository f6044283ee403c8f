"""Where an image lies in a network input after resizing, cropping, and padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api.boundary import Preprocess


@dataclass(frozen=True)
class Placement:
    """Where an image lies in a network input: input pixel = image pixel * `scale` + `offset`, each as (x, y).

    `image` and `input` are sizes as (width, height).
    """

    image: tuple[int, int]
    input: tuple[int, int]
    scale: tuple[float, float]
    offset: tuple[float, float]

    def to_image(self, boxes: NDArray[Any]) -> NDArray[np.float64]:
        """Convert boxes `[n, 4]` as x1, y1, x2, y2 from pixels of the input to pixels of the image, clipped to it."""
        scale, offset = np.tile(self.scale, 2), np.tile(self.offset, 2)
        return np.clip((boxes - offset) / scale, 0.0, np.tile(self.image, 2))

    def places(self, rows: int, columns: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return, for every row and column of the image, its row or column in a map `[rows, columns]` over the input;
        -1 where the input does not show it.
        """
        found: list[NDArray[np.intp]] = []
        for axis, count in ((1, rows), (0, columns)):
            inner = (np.arange(self.image[axis]) + 0.5) * self.scale[axis] + self.offset[axis]
            place = np.floor(inner * count / self.input[axis]).astype(np.intp)
            found.append(np.where((inner >= 0) & (inner < self.input[axis]), place, -1))
        return found[0], found[1]


def fitted_size(preprocess: Preprocess, height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """Return height and width of a resized image before cropping or padding."""
    if not preprocess.keep_aspect_ratio:
        return rows, columns
    ratios = (rows / height, columns / width)
    if preprocess.keep_ratio_mode == "short_side_scale":
        ratio = max(ratios)
        return max(rows, round(height * ratio)), max(columns, round(width * ratio))
    ratio = min(ratios)
    return max(1, int(height * ratio)), max(1, int(width * ratio))


def corner(preprocess: Preprocess, height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the position of a resized image's top left corner; negative where it is cropped."""
    if height >= rows and width >= columns:
        return -((height - rows) // 2), -((width - columns) // 2)
    return (0, 0) if preprocess.pad_type == "normal" else ((rows - height) // 2, (columns - width) // 2)


def placement(preprocess: Preprocess, height: int, width: int, shape: tuple[int, ...]) -> Placement:
    """Return where an image of a given size lies in a network input of `shape`."""
    inner = (shape[2], shape[3]) if preprocess.layout == "nchw" else (shape[1], shape[2])
    rows, columns = preprocess.resize_dims or inner
    fitted = fitted_size(preprocess, height, width, rows, columns)
    top, left = corner(preprocess, *fitted, rows, columns)
    offset = (left - (columns - inner[1]) // 2, top - (rows - inner[0]) // 2)
    return Placement((width, height), (inner[1], inner[0]), (fitted[1] / width, fitted[0] / height), offset)
