"""Bytes of frames that cameras give, what the host makes of them, and networks that take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import from_pixels

from tests.chips.cv18.op_networks import Net

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


def network(path: Path, channels: int = 3, inputs: int = 1) -> Path:
    """Convolutions of two images each, or of one image for each of several inputs."""
    net, images = Net(), 2 if inputs == 1 else 1
    names = ["image"] if inputs == 1 else [f"image{index}" for index in range(inputs)]
    for index, name in enumerate(names):
        net.op("Conv", [name, net.normal(f"w{index}", (8, channels, 3, 3), 0.2)], f"y{index}", pads=[1] * 4)
    shapes = dict.fromkeys(names, (images, channels, 12, 18))
    return net.save(path, shapes, [f"y{index}" for index in range(inputs)])
