"""Convert pixels to input values, and find the reader of an image file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tpuc.ir.preprocess import Preprocess

from tpuc_driver.data.sensor import SENSOR_FORMATS, channels_of_mosaics
from tpuc_driver.data.video import VIDEO_FORMATS, rgb_of_frames

Floats = NDArray[np.float32]


def from_pixels(target: Preprocess, pixels: NDArray[Any], given: Preprocess, shape: tuple[int, ...]) -> Floats:
    """A network input of `shape` from the bytes of resized images with the layout and channel order `given`."""
    images = _ordered(target, pixels, given)
    height, width = shape[2:] if target.layout == "nchw" else shape[1:3]
    cropped = center_crop(np.moveaxis(images, 0, 2), height, width)
    row = np.moveaxis(target.normalize(cropped), 2, 0)
    return np.ascontiguousarray(row.transpose(0, 3, 1, 2) if target.layout == "nchw" else row)


def _ordered(target: Preprocess, pixels: NDArray[Any], given: Preprocess) -> NDArray[Any]:
    """`[n, h, w, c]` with the network's channels, in its order."""
    places = SENSOR_FORMATS.get(given.pixel_format)
    if places is not None:
        return channels_of_mosaics(pixels, places)
    video = VIDEO_FORMATS.get(given.pixel_format)
    if video is not None:
        images, found = rgb_of_frames(pixels, video), "rgb"
    else:
        images = pixels.transpose(0, 2, 3, 1) if given.layout == "nchw" else pixels
        found = given.pixel_format
    if found == target.pixel_format or images.shape[3] == 1:
        return images
    colors = images[..., :3]
    return colors if found == "rgba" and target.pixel_format == "rgb" else colors[..., ::-1]


class Reader(ABC):
    """Reads files that contain one row of a network input each, registered in `tpuc.readers` by file suffix."""

    api_version: ClassVar[int] = 1
    reads_pictures: ClassVar[bool] = False
    """The files are pictures, which require a preprocessing description."""

    @abstractmethod
    def read(self, file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> Floats:
        """The row `[1, ...]` of an input of `shape`; raises CalibrationError for an unsuitable file."""


def center_crop(pixels: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The center of `[h, w, ...]`; an odd remainder is cut off at the end."""
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return pixels[top : top + rows, left : left + columns]
