"""Images as network input: decode, resize, crop, order channels, normalise."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from tpuc.data.resize import Pixels, resize
from tpuc.errors import CalibrationError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1, "rgba": 4}
"""Channels of the pixel formats that images can give."""

_MODES = {"gray": "L", "rgba": "RGBA"}
_ORIENTATION, _FIRST_TURNED = 274, 5  # the tag of EXIF, and the first of its values that exchange height and width

Floats = NDArray[np.float32]


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
        """Boxes `[n, 4]` as x1, y1, x2, y2 in pixels of the input, in pixels of the image, cut at its borders."""
        scale, offset = np.tile(self.scale, 2), np.tile(self.offset, 2)
        return np.clip((boxes - offset) / scale, 0.0, np.tile(self.image, 2))


def image_size(file: Path) -> tuple[int, int]:
    """Height and width of an image as it is meant to be seen, from its header."""
    with _explained(file), Image.open(file) as opened:
        width, height = opened.size
        turned = opened.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
    return (width, height) if turned else (height, width)


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
    pixel_format: Literal["rgb", "bgr", "gray", "rgba", "rgbd"] = "bgr"
    resize_dims: tuple[int, int] | None = None
    keep_aspect_ratio: bool = False
    layout: Literal["nchw", "nhwc"] = "nchw"
    keep_ratio_mode: Literal["letterbox", "short_side_scale"] = "letterbox"
    pad_value: int = 0
    pad_type: Literal["center", "normal"] = "center"

    def __call__(self, file: Path, shape: tuple[int, ...]) -> Floats:
        """The image as one row ``[1, c, h, w]`` or ``[1, h, w, c]`` of a network input of `shape`."""
        height, width = self._check(file, shape)
        row = self.normalise(self._pixels(file, height, width))
        return np.ascontiguousarray((row.transpose(2, 0, 1) if self.layout == "nchw" else row)[None])

    def normalise(self, pixels: NDArray[Any]) -> Floats:
        """`[..., c]`: pixels minus mean, times scale, each rounded to float32; compiled files compute exactly this."""
        channels = pixels.shape[-1]
        mean, scale = (np.resize(np.array(values, np.float32), channels) for values in (self.mean, self.scale))
        return (pixels.astype(np.float32) - mean) * scale

    def from_pixels(self, pixels: NDArray[Any], given: Preprocess, shape: tuple[int, ...]) -> Floats:
        """A network input of `shape` from the bytes of resized images, which lie and are ordered as `given` says."""
        images = pixels.transpose(0, 2, 3, 1) if given.layout == "nchw" else pixels
        height, width = shape[2:] if self.layout == "nchw" else shape[1:3]
        cropped = centre(np.moveaxis(images, 0, 2), height, width)
        if given.pixel_format != self.pixel_format and images.shape[3] > 1:
            cropped = cropped[..., ::-1]
        row = np.moveaxis(self.normalise(cropped), 2, 0)
        return np.ascontiguousarray(row.transpose(0, 3, 1, 2) if self.layout == "nchw" else row)

    def _check(self, file: Path, shape: tuple[int, ...]) -> tuple[int, int]:
        """Height and width of the network input, once it can take such an image."""
        if len(shape) != 4:
            raise CalibrationError(
                f"{file}: an image cannot be an input of shape {shape}. Give this input as .npy or .npz."
            )
        channels = CHANNELS.get(self.pixel_format)
        if channels is None:
            raise CalibrationError(
                f"{file}: an image file has no pixels of format {self.pixel_format}. Give this input as .npy or .npz."
            )
        found, height, width = shape[1:] if self.layout == "nchw" else (shape[3], shape[1], shape[2])
        if found != channels:
            raise CalibrationError(
                f"{file}: pixel format {self.pixel_format} has {channels} channels, the input {shape} ({self.layout})"
                f" has {found}. Set the pixel format or the channel layout of the input."
            )
        for name, values in (("mean", self.mean), ("scale", self.scale)):
            if len(values) not in {1, channels} and not (channels == 1 and len(set(values)) == 1):
                raise CalibrationError(
                    f"{file}: {name} has {len(values)} values, but {self.pixel_format} has {channels} channel(s)."
                    " Give one value, or one for each channel."
                )
        if self.resize_dims is not None and (self.resize_dims[0] < height or self.resize_dims[1] < width):
            raise CalibrationError(
                f"{file}: resized to {self.resize_dims[0]}x{self.resize_dims[1]} it is smaller than the input"
                f" {height}x{width}. Choose larger resize dimensions."
            )
        return height, width

    def _pixels(self, file: Path, height: int, width: int) -> Pixels:
        """`[h, w, c]` in the wanted channel order."""
        mode = _MODES.get(self.pixel_format, "RGB")
        with _explained(file), Image.open(file) as opened:
            ImageOps.exif_transpose(opened, in_place=True)  # without a copy, as is the rest: images may be huge
            image = np.asarray(opened if opened.mode == mode else opened.convert(mode), np.uint8)
        rows, columns = self.resize_dims or (height, width)
        resized = self._resize(image.reshape(*image.shape[:2], -1), rows, columns)
        cropped = centre(resized, height, width)
        return cropped[:, :, ::-1] if self.pixel_format == "bgr" else cropped

    def _resize(self, pixels: Pixels, rows: int, columns: int) -> Pixels:
        fitted = resize(pixels, *self._fitted_size(pixels.shape[0], pixels.shape[1], rows, columns))
        if fitted.shape[0] >= rows and fitted.shape[1] >= columns:
            return centre(fitted, rows, columns)
        canvas = np.full((rows, columns, pixels.shape[2]), self.pad_value, np.uint8)
        top, left = self._corner(fitted.shape[0], fitted.shape[1], rows, columns)
        canvas[top : top + fitted.shape[0], left : left + fitted.shape[1]] = fitted
        return canvas

    def _fitted_size(self, height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
        """Height and width of a resized image before anything is cut off or filled up."""
        if not self.keep_aspect_ratio:
            return rows, columns
        ratios = (rows / height, columns / width)
        if self.keep_ratio_mode == "short_side_scale":
            ratio = max(ratios)
            return max(rows, round(height * ratio)), max(columns, round(width * ratio))
        ratio = min(ratios)
        return max(1, int(height * ratio)), max(1, int(width * ratio))

    def _corner(self, height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
        """Where the top left corner of a resized image goes; negative where it is cut off."""
        if height >= rows and width >= columns:
            return -((height - rows) // 2), -((width - columns) // 2)
        return (0, 0) if self.pad_type == "normal" else ((rows - height) // 2, (columns - width) // 2)

    def place(self, height: int, width: int, shape: tuple[int, ...]) -> Placement:
        """Where an image of a size lies in a network input of `shape`."""
        inner = (shape[2], shape[3]) if self.layout == "nchw" else (shape[1], shape[2])
        rows, columns = self.resize_dims or inner
        fitted = self._fitted_size(height, width, rows, columns)
        top, left = self._corner(*fitted, rows, columns)
        offset = (left - (columns - inner[1]) // 2, top - (rows - inner[0]) // 2)
        return Placement((width, height), (inner[1], inner[0]), (fitted[1] / width, fitted[0] / height), offset)


@contextmanager
def _explained(file: Path) -> Generator[None]:
    """Refusals of an image as sentences."""
    try:
        yield
    except FileNotFoundError as error:
        raise CalibrationError(f"{file}: no such file. Correct the list of samples.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CalibrationError(
            f"{file}: not a readable image ({error}). Replace it, or take it out of the data set."
        ) from error


def centre(pixels: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The middle of `[h, w, ...]`; where something odd remains, one more is cut off at the end."""
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return pixels[top : top + rows, left : left + columns]
