"""Convolution of arrays: row-blocked im2col and matrix products, for floats and, exactly, for integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from tpuc_ops.arrays import Array
from tpuc_ops.window import Window

BLOCK_BYTES = 1 << 20
"""Columns of one matrix product: they stay in the level-2 cache (measured best between 256 KiB and 4 MiB)."""

_EXACT_BITS: tuple[tuple[npt.DTypeLike, int], ...] = ((np.float32, 24), (np.float64, 53))


def as_images(x: Array) -> Array:
    """`[n, c, w]` as `[n, c, 1, w]`; four dimensions stay."""
    return x[:, :, None] if x.ndim == 3 else x


def pad_images(x: Array, pads: tuple[int, int, int, int], value: float = 0.0) -> Array:
    """`x: [n, c, h, w]` with `value` around it; `pads` are top, left, bottom, right."""
    top, left, bottom, right = pads
    if not any(pads):
        return x
    n, c, h, w = x.shape
    result = np.empty((n, c, top + h + bottom, left + w + right), x.dtype)  # np.pad takes twice as long
    result[:, :, :top] = result[:, :, top + h :] = value
    result[:, :, top : top + h, :left] = result[:, :, top : top + h, left + w :] = value
    result[:, :, top : top + h, left : left + w] = x
    return result


def insert_zeros(x: Array, rows: int, columns: int) -> Array:
    """`x: [n, c, h, w]` with so many zeros between neighbours."""
    if not rows and not columns:
        return x
    n, c, h, w = x.shape
    result = np.zeros((n, c, (h - 1) * (rows + 1) + 1, (w - 1) * (columns + 1) + 1), x.dtype)
    result[:, :, :: rows + 1, :: columns + 1] = x
    return result


def convolve(x: Array, weight: Array, window: Window, group: int = 1, pad_value: float = 0.0) -> Array:
    """`x: [n, c, h, w]`, `weight: [oc, c / group, kh, kw]` to `[n, oc, oh, ow]`, computed in the type of `x`."""
    padded = pad_images(x, window.pads, pad_value)
    weight = weight.astype(x.dtype, copy=False)
    oh, ow = window.output(x.shape[2:])
    result = np.empty((x.shape[0], weight.shape[0], oh, ow), x.dtype)
    if weight.shape[1] == 1 and group > 1:
        _depthwise(padded, weight, window, group, result)
    else:
        _products(padded, weight, window, group, result)
    return result


def _products(padded: Array, weight: Array, window: Window, group: int, result: Array) -> None:
    (sh, sw), (dh, dw) = window.strides, window.dilations
    count, channels, oh, ow = result.shape
    depth = weight[0].size
    matrices = weight.reshape(group, channels // group, depth)
    inputs = padded.shape[1] // group
    results = result.reshape(count, group, channels // group, oh * ow)
    if window.extents == (1, 1):
        columns = padded[:, :, ::sh, ::sw][:, :, :oh, :ow].reshape(count, group, inputs, oh * ow)
        np.matmul(matrices, columns, out=results)
        return
    windows = sliding_window_view(padded, window.extents, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    rows = max(1, BLOCK_BYTES // (depth * ow * padded.itemsize))
    for image in range(count):
        for index in range(group):
            own = windows[image, index * inputs : (index + 1) * inputs].transpose(0, 3, 4, 1, 2)
            for row in range(0, oh, rows):
                columns = own[:, :, :, row : row + rows].reshape(depth, -1)
                np.matmul(matrices[index], columns, out=results[image, index, :, row * ow : (row + rows) * ow])


def _depthwise(padded: Array, weight: Array, window: Window, group: int, result: Array) -> None:
    """One input channel per group: a multiply-add per tap, where matrix products would be slivers."""
    (sh, sw), (dh, dw) = window.strides, window.dilations
    count, channels, oh, ow = result.shape
    taps = weight.reshape(group, channels // group, *window.kernel, 1, 1)
    results = result.reshape(count, group, channels // group, oh, ow)
    results[:] = 0
    for i, j in np.ndindex(*window.kernel):
        rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
        columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
        results += padded[:, :, None, rows, columns] * taps[:, :, i, j]


def exact_dtype(left_limit: int, right: Array) -> npt.DTypeLike:
    """The fastest float type in which products with the rows of `right` are exact for every order of summation.

    `left_limit`: largest magnitude of the left integers; every partial sum is below it times the sum of a row's
    magnitudes. Raises ValueError beyond 53 bits.
    """
    rows = np.abs(right.astype(np.int32)).reshape(right.shape[0], -1).sum(1, np.int64)
    bound = left_limit * int(rows.max(initial=0))
    for dtype, bits in _EXACT_BITS:
        if bound <= 1 << bits:
            return dtype
    raise ValueError("the integer sums of this op do not fit 53 bits")


def magnitude(x: Array) -> int:
    """Largest absolute value of integers, 0 when there are none."""
    return max(-int(x.min()), int(x.max())) if x.size else 0
