"""What becomes of an image before a network takes it, and who reads images from files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tpuc.data.sensor import SENSOR_FORMATS, channels_of_mosaics
from tpuc.data.video import VIDEO_FORMATS, rgb_of_frames

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Preprocess:
    """``y = (x - mean) * scale`` per channel in the order of `pixel_format`, after resize and centre crop.

    `resize_dims` is (height, width) before the crop, by default the network's own. `keep_aspect_ratio` resizes without
    distortion: with `keep_ratio_mode` letterbox the image fits in, at the top left (`pad_type` normal) or in the
    centre, and the rest is filled with pixels of `pad_value`; with short_side_scale it covers everything, and what
    stands out on both sides is cut off.
    """

    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    pixel_format: Literal[
        "rgb", "bgr", "gray", "rgba", "rgbd", "yuv420", "nv12", "nv21", "rggb", "grbg", "gbrg", "bggr"
    ] = "bgr"
    resize_dims: tuple[int, int] | None = None
    keep_aspect_ratio: bool = False
    layout: Literal["nchw", "nhwc"] = "nchw"
    keep_ratio_mode: Literal["letterbox", "short_side_scale"] = "letterbox"
    pad_value: int = 0
    pad_type: Literal["center", "normal"] = "center"

    def normalise(self, pixels: NDArray[Any]) -> Floats:
        """`[..., c]`: pixels minus mean, times scale, each rounded to float32; compiled files compute exactly this."""
        channels = pixels.shape[-1]
        mean, scale = (np.resize(np.array(values, np.float32), channels) for values in (self.mean, self.scale))
        return (pixels.astype(np.float32) - mean) * scale

    def from_pixels(self, pixels: NDArray[Any], given: Preprocess, shape: tuple[int, ...]) -> Floats:
        """A network input of `shape` from the bytes of resized images, which lie and are ordered as `given` says."""
        images = self._ordered(pixels, given)
        height, width = shape[2:] if self.layout == "nchw" else shape[1:3]
        cropped = centre_crop(np.moveaxis(images, 0, 2), height, width)
        row = np.moveaxis(self.normalise(cropped), 2, 0)
        return np.ascontiguousarray(row.transpose(0, 3, 1, 2) if self.layout == "nchw" else row)

    def _ordered(self, pixels: NDArray[Any], given: Preprocess) -> NDArray[Any]:
        """`[n, h, w, c]` with the channels that the network takes, in its order."""
        places = SENSOR_FORMATS.get(given.pixel_format)
        if places is not None:
            return channels_of_mosaics(pixels, places)
        video = VIDEO_FORMATS.get(given.pixel_format)
        if video is not None:
            images, found = rgb_of_frames(pixels, video), "rgb"
        else:
            images = pixels.transpose(0, 2, 3, 1) if given.layout == "nchw" else pixels
            found = given.pixel_format
        if found == self.pixel_format or images.shape[3] == 1:
            return images
        colours = images[..., :3]
        return colours if found == "rgba" and self.pixel_format == "rgb" else colours[..., ::-1]


class Reader(ABC):
    """Reads files that hold one row of a network input each. `tpuc.readers` names it by the suffixes of its files."""

    api_version: ClassVar[int] = 1
    reads_pictures: ClassVar[bool] = False
    """Pictures become an input only where its preprocessing is described."""

    @abstractmethod
    def read(self, file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> Floats:
        """The row `[1, ...]` of an input of `shape`; raises CalibrationError for a file that cannot be one."""


def centre_crop(pixels: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The middle of `[h, w, ...]`; where something odd remains, one more is cut off at the end."""
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return pixels[top : top + rows, left : left + columns]
