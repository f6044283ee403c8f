"""Instance masks: coefficients times prototypes, in pixels of the image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_images.placing import Placement

from tpuc_eval.postprocess.boxes import Floats
from tpuc_eval.protocols import Mask


def masks_of(coefficients: Floats, prototypes: Floats, boxes: Floats, place: Placement) -> tuple[Mask, ...]:
    """Return a mask for each box `[n, 4]` in pixels of the image: a pixel belongs to it if the weighted sum of the
    prototypes `[m, h, w]`, with coefficients `[n, m]`, interpolated at the pixel's center, is positive, and if the
    pixel's corner is inside the box.
    """
    return tuple(
        _mask(np.tensordot(weights, prototypes, 1), box, place)
        for weights, box in zip(coefficients, boxes, strict=True)
    )


def _mask(values: NDArray[Any], box: Floats, place: Placement) -> Mask:
    left, top, right, bottom = (math.ceil(end) for end in box)
    across = _weights(left, right, values.shape[1], place, 0)
    down = _weights(top, bottom, values.shape[0], place, 1)
    return Mask(left, top, down @ values @ across.T > 0)


def _weights(first: int, last: int, count: int, place: Placement, axis: int) -> NDArray[np.float64]:
    """Return the interpolation weights `[pixels, count]` of `count` positions over the input for each pixel of the
    image. Positions end where the picture ends in the input.
    """
    unit = count / place.input[axis]
    start, scale = place.offset[axis] * unit, place.scale[axis] * unit
    least = max(0, round(start))
    most = max(least, min(count, round(start + place.image[axis] * scale)) - 1)
    where = np.clip((np.arange(first, last) + 0.5) * scale + start - 0.5, least, most)
    lower = np.floor(where).astype(np.intp)
    shares = np.zeros((len(where), count))
    pixels = np.arange(len(where))
    shares[pixels, lower] = 1.0 - (where - lower)
    shares[pixels, np.minimum(lower + 1, most)] += where - lower
    return shares
