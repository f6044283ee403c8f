"""Images as network input: decode, resize, crop, order channels, normalize."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from tpuc.api import CalibrationError
from tpuc.api.boundary import INTERPOLATIONS, Preprocess
from tpuc_driver.api.host import center_crop

from tpuc_images.placing import corner, fitted_size
from tpuc_images.resize import Pixels, resize

_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1, "rgba": 4}  # of the pixel formats that images can give
_MODES = {"gray": "L", "rgba": "RGBA"}
_ORIENTATION, _FIRST_TURNED = 274, 5  # the tag of EXIF, and the first of its values that exchange height and width


def read_image(file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the image as one row ``[1, c, h, w]`` or ``[1, h, w, c]`` of a network input of `shape`."""
    height, width = _check(file, preprocess, shape)
    row = preprocess.normalize(_pixels(file, preprocess, height, width))
    return np.ascontiguousarray((row.transpose(2, 0, 1) if preprocess.layout == "nchw" else row)[None])


def image_size(file: Path) -> tuple[int, int]:
    """Return height and width of an image from its header, after applying its orientation."""
    with _explained(file), Image.open(file) as opened:
        width, height = opened.size
        turned = opened.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
    return (width, height) if turned else (height, width)


def upright(file: Path) -> Image.Image:
    """Return the image in RGB, after applying its orientation."""
    with _explained(file), Image.open(file) as opened:
        return ImageOps.exif_transpose(opened).convert("RGB")


def _check(file: Path, preprocess: Preprocess, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of the network input; raises UsageError if it cannot take such an image."""
    if len(shape) != 4:
        raise CalibrationError(
            f"{file}: an image cannot be an input of shape {shape}. Give this input as .npy or .npz."
        )
    channels = _CHANNELS.get(preprocess.pixel_format)
    if channels is None:
        raise CalibrationError(
            f"{file}: an image file has no pixels of format {preprocess.pixel_format}. Give this input as .npy or .npz."
        )
    found, height, width = shape[1:] if preprocess.layout == "nchw" else (shape[3], shape[1], shape[2])
    if found != channels:
        raise CalibrationError(
            f"{file}: pixel format {preprocess.pixel_format} has {channels} channels, but the input {shape} "
            f"({preprocess.layout}) has {found}. Set the pixel format or the channel layout of the input."
        )
    for name, values in (("mean", preprocess.mean), ("scale", preprocess.scale)):
        if len(values) not in {1, channels} and not (channels == 1 and len(set(values)) == 1):
            raise CalibrationError(
                f"{file}: {name} has {len(values)} values, but {preprocess.pixel_format} has {channels} channel(s)."
                " Give one value, or one for each channel."
            )
    if preprocess.interpolation not in (None, *INTERPOLATIONS):
        raise CalibrationError(
            f"{file}: no interpolation is named '{preprocess.interpolation}'. Choose one of "
            f"{', '.join(INTERPOLATIONS)}."
        )
    if preprocess.resize_dims is not None and (preprocess.resize_dims[0] < height or preprocess.resize_dims[1] < width):
        raise CalibrationError(
            f"{file}: resized to {preprocess.resize_dims[0]}x{preprocess.resize_dims[1]} it is smaller than the input"
            f" {height}x{width}. Choose larger resize dimensions."
        )
    return height, width


def _pixels(file: Path, preprocess: Preprocess, height: int, width: int) -> Pixels:
    """Return `[h, w, c]` in the requested channel order."""
    mode = _MODES.get(preprocess.pixel_format, "RGB")
    with _explained(file), Image.open(file) as opened:
        ImageOps.exif_transpose(opened, in_place=True)  # without a copy, as is the rest: images may be huge
        image = np.asarray(opened if opened.mode == mode else opened.convert(mode), np.uint8)
    rows, columns = preprocess.resize_dims or (height, width)
    resized = _resized(preprocess, image.reshape(*image.shape[:2], -1), rows, columns)
    cropped = center_crop(resized, height, width)
    return cropped[:, :, ::-1] if preprocess.pixel_format == "bgr" else cropped


def _resized(preprocess: Preprocess, pixels: Pixels, rows: int, columns: int) -> Pixels:
    size = fitted_size(preprocess, pixels.shape[0], pixels.shape[1], rows, columns)
    fitted = resize(pixels, *size, preprocess.interpolation)
    if fitted.shape[0] >= rows and fitted.shape[1] >= columns:
        return center_crop(fitted, rows, columns)
    canvas = np.full((rows, columns, pixels.shape[2]), preprocess.pad_value, np.uint8)
    top, left = corner(preprocess, fitted.shape[0], fitted.shape[1], rows, columns)
    canvas[top : top + fitted.shape[0], left : left + fitted.shape[1]] = fitted
    return canvas


@contextmanager
def _explained(file: Path) -> Generator[None]:
    """Turn errors of an image library into messages."""
    try:
        yield
    except FileNotFoundError as error:
        raise CalibrationError(f"{file}: no such file. Correct the list of samples.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CalibrationError(
            f"{file}: not a readable image ({error}). Replace it, or remove it from the data set."
        ) from error
