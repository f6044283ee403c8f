"""Convert camera frames with chroma at half resolution (YUV 4:2:0) to RGB.

BT.601, limited range: R = y + 1.596027 v, G = y - 0.391762 u - 0.812968 v, B = y + 2.017232 u, where y is 1.164384 (Y -
16), at least 0, u is U - 128 and v is V - 128. Each term is rounded to 1/16 before the sum, and the sum half up to a
byte, so that compiled files, which may look up terms in tables of bytes, compute exactly this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRACTION_BITS = 4
_LOW_BITS = 8
LOW_STEPS = 1 << _LOW_BITS
"""Number of smallest steps per step of a term's high byte."""

_Y, _V_RED, _U_GREEN, _V_GREEN, _U_BLUE = 255 / 219, 1.596027, -0.391762, -0.812968, 2.017232


@dataclass(frozen=True)
class VideoFormat:
    """The chroma layout of a frame `[n, 1, 3 h / 2, w]` after its luma: interleaved, or in two planes."""

    interleaved: bool
    u_first: bool = True


VIDEO_FORMATS: Mapping[str, VideoFormat] = {
    "yuv420": VideoFormat(interleaved=False),
    "nv12": VideoFormat(interleaved=True),
    "nv21": VideoFormat(interleaved=True, u_first=False),
}
"""The formats by `pixel_format`."""


@dataclass(frozen=True)
class Term:
    """The contribution of a byte of one plane to one channel: its difference from `zero` times `factor`, in sixteenths.

    Where it `is_positive`, bytes below `zero` contribute 0.
    """

    factor: float
    zero: int
    is_positive: bool = False

    @property
    def values(self) -> NDArray[np.int64]:
        """For each of 256 bytes, ``high * LOW_STEPS + low``."""
        difference = np.arange(256) - self.zero
        exact = self.factor * (np.maximum(difference, 0) if self.is_positive else difference)
        return np.floor(exact * (1 << FRACTION_BITS) + 0.5).astype(np.int64)

    @property
    def high(self) -> NDArray[np.int8]:
        """The signed high byte."""
        return (self.values >> _LOW_BITS).astype(np.int8)

    @property
    def low(self) -> NDArray[np.uint8]:
        """The remainder, from 0 to `LOW_STEPS` - 1."""
        return (self.values % LOW_STEPS).astype(np.uint8)


def video_terms() -> Mapping[tuple[str, str], Term]:
    """The terms by channel and plane: `("r", "v")`; luma contributes equally to all channels, `("", "y")`."""
    return {
        ("", "y"): Term(_Y, 16, is_positive=True),
        ("r", "v"): Term(_V_RED, 128),
        ("g", "u"): Term(_U_GREEN, 128),
        ("g", "v"): Term(_V_GREEN, 128),
        ("b", "u"): Term(_U_BLUE, 128),
    }


def rgb_of_frames(frames: NDArray[Any], video: VideoFormat) -> NDArray[np.uint8]:
    """`[n, h, w, 3]` from frames `[n, 1, 3 h / 2, w]`: the four pixels of a square share their chroma."""
    count, _, rows, width = frames.shape
    height = rows * 2 // 3
    maps = frames[:, 0, height:].reshape(count, -1)
    if video.interleaved:
        first, second = maps[:, ::2], maps[:, 1::2]
    else:
        first, second = np.split(maps, 2, axis=1)
    colors = dict(zip("uv" if video.u_first else "vu", (first, second), strict=True))
    u, v = (
        colors[name].reshape(count, height // 2, width // 2).repeat(2, 1).repeat(2, 2).astype(np.intp) for name in "uv"
    )
    terms = {name: term.values for name, term in video_terms().items()}
    y = terms["", "y"][frames[:, 0, :height].astype(np.intp)] + (1 << FRACTION_BITS >> 1)
    sums = (y + terms["r", "v"][v], y + terms["g", "u"][u] + terms["g", "v"][v], y + terms["b", "u"][u])
    return np.clip(np.stack(sums, 3) >> FRACTION_BITS, 0, 255).astype(np.uint8)
