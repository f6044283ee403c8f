"""Mosaics of sensors as bytes, by the layout of MIPI RAW12."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ORDERS = {
    "rggb": ((0, 0), (0, 1), (1, 1), (1, 0)),
    "grbg": ((0, 1), (0, 0), (1, 0), (1, 1)),
    "gbrg": ((1, 0), (1, 1), (0, 1), (0, 0)),
    "bggr": ((1, 1), (1, 0), (0, 0), (0, 1)),
}
"""Row and column of red, of the green beside it, of blue, and of the green beside that."""


def packed(mosaics: NDArray[Any]) -> NDArray[np.uint8]:
    """`[n, 1, h, 3 w / 2]` bytes of `[n, h, w]` values of 12 bits."""
    first, second = mosaics[..., ::2], mosaics[..., 1::2]
    parts = np.stack([first >> 4, second >> 4, (second & 15) << 4 | first & 15], 3)
    return parts.reshape(len(mosaics), 1, mosaics.shape[1], -1).astype(np.uint8)


def every_value(rows: int, columns: int, seed: int = 0) -> NDArray[np.int64]:
    """A mosaic; whole numbers from 0 to 4095 in another order at each of the four places."""
    random = np.random.default_rng(seed)
    mosaic = np.empty((rows, columns), np.int64)
    for row, column in ORDERS["rggb"]:
        values = np.resize(random.permutation(4096), rows * columns // 4)
        mosaic[row::2, column::2] = values.reshape(rows // 2, columns // 2)
    return mosaic
