"""Sample images at positions between their elements."""

from __future__ import annotations

import numpy as np

from tpuc_ops.arrays import Array


def bilinear(x: Array, rows: Array, columns: Array) -> Array:
    """Sample `x: [..., c, h, w]` bilinearly at positions `[..., *p]`: `[..., c, *p]`; 0 outside."""
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    result = np.float32(0)
    for row, row_share in ((top, 1 - down), (top + 1, down)):
        for column, share in ((left, 1 - right), (left + 1, right)):
            result = result + picked(x, [row, column]) * np.expand_dims(row_share * share, x.ndim - 3)
    return result


def picked(x: Array, places: list[Array]) -> Array:
    """Return elements of `x: [..., c, *d]` at integer positions, one array `[..., *p]` per dimension of d; 0
    outside.
    """
    count = len(places)
    sizes = x.shape[-count:]
    lead = x.shape[: -count - 1]
    inside = np.logical_and.reduce([(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=True)])
    flat = np.zeros(places[0].shape, np.int64)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + np.clip(np.nan_to_num(place), 0, size - 1).astype(np.int64)
    points = flat.shape[len(lead) :]
    values = np.take_along_axis(x.reshape(*lead, x.shape[len(lead)], -1), flat.reshape(*lead, 1, -1), -1)
    values = values.reshape(*lead, x.shape[len(lead)], *points)
    return np.where(np.expand_dims(inside, len(lead)), values, np.float32(0))
