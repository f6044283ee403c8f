"""Pool arrays: sums, counts, and maxima under sliding windows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuc_ops.arrays import Array
from tpuc_ops.convolution import pad_images
from tpuc_ops.window import Extents, Window


def window_sums(x: Array, window: Window, pad_value: float = 0.0) -> Array:
    """Return the sums of `x: [n, c, h, w]` or `[n, c, d, h, w]` under each window, in the type of `x`."""
    return _slide(np.add, pad_images(x, window.pads, pad_value), x, window, 0)


def window_maxima(x: Array, window: Window) -> Array:
    """Return the maxima of `x: [n, c, h, w]` or `[n, c, d, h, w]`; padding is below every value."""
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    return _slide(np.maximum, pad_images(x, window.pads, lowest), x, window, lowest)


def window_counts(size: Extents, window: Window, count_include_pad: bool) -> npt.NDArray[np.float32]:
    """Return the number of elements under each window, `[1, 1, oh, ow]` or `[1, 1, od, oh, ow]`; overhang from `ceil`
    never counts.
    """
    inside = np.ones((1, 1, *size), np.float32)
    padded = pad_images(inside, window.pads, float(count_include_pad))
    return _slide(np.add, padded, inside, window, 0)


def _slide(reduce: np.ufunc, padded: Array, x: Array, window: Window, beyond: float) -> Array:
    """Reduce under sliding windows, one dimension after the other: sums and maxima are separable."""
    size = x.shape[2:]
    overhang = window.overhang(size)
    padded = pad_images(padded, (*(0,) * len(overhang), *overhang), beyond)
    for axis, count in enumerate(window.output(size)):
        stride = window.strides[axis]
        taps = [
            padded[(slice(None),) * (axis + 2) + (slice(tap, tap + (count - 1) * stride + 1, stride),)]
            for tap in range(window.kernel[axis])
        ]
        padded = taps[0].copy()
        for tap in taps[1:]:
            reduce(padded, tap, out=padded)
    return padded
