"""Raw values of image sensors: Bayer mosaics with one color per position, 12 bits each.

A network reads a mosaic `[n, 2 h, 2 w]` as four channels of half the height and width, in the order red, green next to
red, blue, green next to blue. Two values of a row take three bytes, as packed by MIPI RAW12: the upper eight bits of
the first, those of the second, and the lower four bits of both, the second's above the first's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

SENSOR_VALUES = 1 << 12
"""Number of different values."""
LOW_BITS = 4
"""Number of low bits, which are stored in the shared byte."""

Place = tuple[int, int]
"""Row and column within a 2x2 square."""


def _places(red: Place) -> tuple[Place, ...]:
    row, column = red
    return red, (row, 1 - column), (1 - row, 1 - column), (1 - row, column)


SENSOR_FORMATS: Mapping[str, tuple[Place, ...]] = {
    "rggb": _places((0, 0)),
    "grbg": _places((0, 1)),
    "gbrg": _places((1, 0)),
    "bggr": _places((1, 1)),
}
"""The position of each network channel within a square, by `pixel_format`."""


def channels_of_mosaics(frames: NDArray[np.uint8], places: tuple[Place, ...]) -> NDArray[np.int16]:
    """`[n, h, w, 4]` of frames `[n, 1, 2 h, 3 w]`: values from 0 to 4095."""
    count, _, rows, width = frames.shape
    squares = frames.reshape(count, rows // 2, 2, width // 3, 3).astype(np.int16)
    mask = (1 << LOW_BITS) - 1
    return np.stack(
        [
            (squares[:, :, row, :, column] << LOW_BITS) | (squares[:, :, row, :, 2] >> LOW_BITS * column & mask)
            for row, column in places
        ],
        axis=3,
    )
