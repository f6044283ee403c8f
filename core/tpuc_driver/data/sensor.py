"""Raw values of image sensors: Bayer mosaics with one color per position, 12 bits each.

A network sees a mosaic `[n, 2 h, 2 w]` as four channels of half the height and width, always in the order red, green
beside red, blue, green beside blue. Two values of a row take three bytes, as MIPI RAW12 packs them: the upper eight
bits of the first, those of the second, and the lower four bits of both, those of the second above those of the first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

SENSOR_VALUES = 1 << 12
"""How many values there are."""
LOW_BITS = 4
"""Of a value, those which lie in the byte that it shares."""

Place = tuple[int, int]
"""Row and column within a square of two by two."""


def _places(red: Place) -> tuple[Place, ...]:
    row, column = red
    return red, (row, 1 - column), (1 - row, 1 - column), (1 - row, column)


SENSOR_FORMATS: Mapping[str, tuple[Place, ...]] = {
    "rggb": _places((0, 0)),
    "grbg": _places((0, 1)),
    "gbrg": _places((1, 0)),
    "bggr": _places((1, 1)),
}
"""By the name that `pixel_format` has for them: where each channel of the network lies in a square."""


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
