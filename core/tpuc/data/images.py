"""Images as network input: decode, resize, crop, order channels, normalise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from tpuc.errors import CalibrationError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Preprocess:
    """``y = (x - mean) * scale`` per channel in the order of `pixel_format`, after resize and centre crop.

    `resize_dims` is (height, width) before the crop, by default the network's own. With `keep_aspect_ratio` the image
    is fitted into it and the rest filled with pixels of value 0 on both sides.
    """

    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    scale: tuple[float, ...] = (1.0, 1.0, 1.0)
    pixel_format: Literal["rgb", "bgr", "gray"] = "bgr"
    resize_dims: tuple[int, int] | None = None
    keep_aspect_ratio: bool = False
    layout: Literal["nchw", "nhwc"] = "nchw"

    def __call__(self, file: Path, shape: tuple[int, ...]) -> Floats:
        """The image as one row ``[1, c, h, w]`` or ``[1, h, w, c]`` of a network input of `shape`."""
        height, width = self._check(file, shape)
        pixels = self._pixels(file, height, width)
        channels = pixels.shape[2]
        mean, scale = (np.resize(np.array(values, np.float32), channels) for values in (self.mean, self.scale))
        normalised = (pixels.astype(np.float32) - mean) * scale
        row = normalised.transpose(2, 0, 1) if self.layout == "nchw" else normalised
        return np.ascontiguousarray(row[None])

    def _check(self, file: Path, shape: tuple[int, ...]) -> tuple[int, int]:
        """Height and width of the network input, once it can take such an image."""
        channels = 1 if self.pixel_format == "gray" else 3
        if len(shape) != 4:
            raise CalibrationError(
                f"{file}: an image cannot be an input of shape {shape}. Give this input as .npy or .npz."
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

    def _pixels(self, file: Path, height: int, width: int) -> NDArray[np.uint8]:
        """`[h, w, c]` in the wanted channel order."""
        try:
            with Image.open(file) as opened:
                image = ImageOps.exif_transpose(opened).convert("L" if self.pixel_format == "gray" else "RGB")
        except FileNotFoundError as error:
            raise CalibrationError(f"{file}: no such file. Correct the list of samples.") from error
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise CalibrationError(
                f"{file}: not a readable image ({error}). Replace it, or take it out of the data set."
            ) from error
        rows, columns = self.resize_dims or (height, width)
        resized = np.asarray(self._resize(image, rows, columns), np.uint8).reshape(rows, columns, -1)
        top, left = (rows - height) // 2, (columns - width) // 2
        cropped = resized[top : top + height, left : left + width]
        return cropped[:, :, ::-1] if self.pixel_format == "bgr" else cropped

    def _resize(self, image: Image.Image, rows: int, columns: int) -> Image.Image:
        if not self.keep_aspect_ratio:
            return image.resize((columns, rows), Image.Resampling.BILINEAR)
        ratio = min(columns / image.width, rows / image.height)
        fitted = (max(1, int(image.width * ratio)), max(1, int(image.height * ratio)))
        canvas = Image.new(image.mode, (columns, rows))
        canvas.paste(
            image.resize(fitted, Image.Resampling.BILINEAR), ((columns - fitted[0]) // 2, (rows - fitted[1]) // 2)
        )
        return canvas
