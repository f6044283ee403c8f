"""Bytes of frames that cameras give, and what the host makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import from_pixels

CAMERA = ("YUV_NV12", "YUV_NV21", "YUV420_PLANAR", "RGBA_PACKED")
"""Formats of frames that cameras give."""


def frames(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Any bytes."""
    return np.random.default_rng(4).integers(0, 256, shape).astype(np.uint8)


def host_frames(raw: np.ndarray, form: str, preprocess: dict[str, Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A network input of `shape` as the host makes it of frames; its arithmetic has tests of its own."""
    pixel_format: Any = form.removesuffix("_PACKED").removesuffix("_PLANAR").removeprefix("YUV_").lower()
    given = Preprocess(pixel_format=pixel_format, layout="nhwc" if form.endswith("PACKED") else "nchw")
    return from_pixels(Preprocess(**preprocess), raw, given, shape)
