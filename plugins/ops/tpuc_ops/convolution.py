"""Convolve arrays by row-blocked im2col and matrix products; exact for integers, reproducible for floats."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from tpuc_ops.arrays import Array
from tpuc_ops.products import exact_product, factor, parts_needed, sizes, wide_factor
from tpuc_ops.window import Extents, Window

BLOCK_BYTES = 1 << 20
"""Size of the columns of one matrix product, or of its result, so that they stay in the level-2 cache (best between 256
KiB and 4 MiB).
"""
BLOCK_ELEMENTS = 1 << 15
"""Number of sums of a depthwise convolution that are computed at a time."""
_EXACT_BITS: tuple[tuple[npt.DTypeLike, int], ...] = ((np.float32, 24), (np.float64, 53))


def as_images(x: Array) -> Array:
    """Reshape `[n, c, w]` to `[n, c, 1, w]`; other ranks are unchanged."""
    return x[:, :, None] if x.ndim == 3 else x


def pad_images(x: Array, pads: Extents, value: float = 0.0) -> Array:
    """Pad `x: [n, c, h, w]` or `[n, c, d, h, w]` with `value`; `pads` are those of a window."""
    if not any(pads):
        return x
    rank, size = len(pads) // 2, x.shape[2:]
    padded = [pads[axis] + size[axis] + pads[axis + rank] for axis in range(rank)]
    result = np.empty((*x.shape[:2], *padded), x.dtype)  # np.pad takes twice as long
    inside: tuple[slice, ...] = (slice(None), slice(None))
    for before, extent in zip(pads, size, strict=False):
        result[(*inside, slice(before))] = result[(*inside, slice(before + extent, None))] = value
        inside = (*inside, slice(before, before + extent))
    result[inside] = x
    return result


def insert_zeros(x: Array, rows: int, columns: int) -> Array:
    """Insert `rows` and `columns` zeros between neighbors of `x: [n, c, h, w]`."""
    if not rows and not columns:
        return x
    n, c, h, w = x.shape
    result = np.zeros((n, c, (h - 1) * (rows + 1) + 1, (w - 1) * (columns + 1) + 1), x.dtype)
    result[:, :, :: rows + 1, :: columns + 1] = x
    return result


def convolve(
    x: Array, weight: Array, window: Window, group: int = 1, pad_value: float = 0.0, *, whole: bool = False
) -> Array:
    """Convolve `x: [n, c, h, w]` with `weight: [oc, c / group, kh, kw]` to `[n, oc, oh, ow]`, in the type of `x`; or
    volumes, with a depth before h, kh, and oh.

    `whole`: the operands are integers, and that type represents every sum of their products exactly. Float32 sums are
    the same on every processor (see `products`).
    """
    weight = weight.astype(x.dtype, copy=False)
    if x.ndim == 5:
        return _volumes(pad_images(x, window.pads, pad_value), weight, window, group, whole)
    oh, ow = window.output(x.shape[2:])
    if weight.shape[1] == 1 and group > 1:
        result = np.empty((x.shape[0], weight.shape[0], oh, ow), x.dtype)
        _depthwise(_phases(x, window, pad_value), weight, window, group, result, whole=whole)
        return result
    matrices = weight.reshape(group, weight.shape[0] // group, -1)
    if whole or x.dtype != np.float32:
        images, filters = [x], [matrices]
    else:
        images, filters = _on_grids(x, matrices)
    result = np.empty((x.shape[0], weight.shape[0], oh, ow), x.dtype)
    _products([pad_images(one, window.pads, pad_value) for one in images], filters, window, result)
    return result


def _on_grids(x: Array, matrices: Array) -> tuple[list[Array], list[Array]]:
    """Split images and filters into parts whose products have exact sums in float64; unsplit if there are no grids."""
    grouped = x.reshape(len(x), len(matrices), -1, *x.shape[2:])
    channels = matrices.reshape(*matrices.shape[:2], grouped.shape[2], -1)
    size = np.abs(grouped)
    least = parts_needed(sizes(channels, (3,)), size.max(axis=(0, 3, 4), initial=0.0))
    images, filters = factor(grouped, (2, 3, 4), least, size), wide_factor(matrices, (2,), least)
    if images is None or filters is None:
        return [x], [matrices.astype(np.float64)]
    return [part.reshape(x.shape) for part in images.parts], filters


def _volumes(padded: Array, weight: Array, window: Window, group: int, whole: bool) -> Array:
    """Convolve `padded: [n, c, d, h, w]` as images: the taps along the depth become channels, and each depth position
    an image.
    """
    n, c, *_, h, w = padded.shape
    taps, stride, apart = window.kernel[0], window.strides[0], window.dilations[0]
    depth = (padded.shape[2] - window.extents[0]) // stride + 1
    stacked = np.stack(
        [padded[:, :, tap * apart : tap * apart + (depth - 1) * stride + 1 : stride] for tap in range(taps)], 2
    )
    images = stacked.transpose(0, 3, 1, 2, 4, 5).reshape(n * depth, c * taps, h, w)
    filters = weight.reshape(weight.shape[0], -1, *window.kernel[1:])
    over_images = Window(window.kernel[1:], window.strides[1:], (0, 0, 0, 0), window.dilations[1:])
    result = convolve(images, filters, over_images, group, whole=whole)
    return np.ascontiguousarray(result.reshape(n, depth, *result.shape[1:]).swapaxes(1, 2))


def _products(images: list[Array], filters: list[Array], window: Window, result: Array) -> None:
    """Compute matrix products of padded images and filters `[group, oc / group, c / group * taps]`, each given as a sum
    of parts, in the type of the filters.
    """
    (sh, sw), (dh, dw) = window.strides, window.dilations
    count, _, oh, ow = result.shape
    group, outputs, depth = filters[0].shape
    inputs, dtype = images[0].shape[1] // group, filters[0].dtype
    results = result.reshape(count, group, outputs, oh * ow)
    views = [sliding_window_view(one, window.extents, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw] for one in images]
    rows = max(1, BLOCK_BYTES // (max(depth, outputs) * ow * dtype.itemsize))
    for image, index in product(range(count), range(group)):
        own = [one[image, index * inputs : (index + 1) * inputs].transpose(0, 3, 4, 1, 2) for one in views]
        matrices = [one[index] for one in filters]
        for row in range(0, oh, rows):
            columns = [one[:, :, :, row : row + rows].astype(dtype, "C").reshape(depth, -1) for one in own]
            into = results[image, index, :, row * ow : (row + rows) * ow]
            if dtype == result.dtype:
                np.matmul(matrices[0], columns[0], out=into)
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    into[...] = exact_product(matrices, columns)


def _depthwise(phases: Array, weight: Array, window: Window, group: int, result: Array, *, whole: bool) -> None:
    """Convolve with one input channel per group. Integers: one matrix product per channel over all taps; floats: one
    tap after the other. Rows of an image are treated as one long row; sums across row ends are computed and ignored.
    """
    (count, channels, oh, ow), (height, width) = result.shape, phases.shape[-2:]
    rows = phases.reshape(*phases.shape[:4], height * width)
    length, taps = (oh - 1) * width + ow, weight.reshape(group, channels // group, window.taps)
    results = result.reshape(count, group, channels // group, oh, ow)
    places = BLOCK_BYTES // (2 * window.taps * rows.itemsize) if whole else BLOCK_ELEMENTS // taps.shape[1]
    many, part = min(max(places // length, 1), group), min(max(places, 1), length)
    buffer = np.empty((many, taps.shape[2 if whole else 1], part), rows.dtype)
    sums = np.empty((many, taps.shape[1], oh * width), rows.dtype)
    for image in range(count):
        views = _tap_views(rows[:, :, image], window, width, length, together=whole)
        for channel in range(0, group, many):
            own = slice(channel, channel + many)
            filters = taps[own]
            some = len(filters)
            for begin in range(0, length, part):
                end = min(begin + part, length)
                seen = [(numbers, view[own, :, begin:end]) for numbers, view in views]
                total, scratch = sums[:some, :, begin:end], buffer[:some, :, : end - begin]
                if whole:
                    for numbers, view in seen:
                        scratch[:, numbers] = view
                    np.matmul(filters, scratch, out=total)
                else:
                    _add_taps(seen, filters, scratch, total)
            results[image, own] = sums[:some].reshape(*filters.shape[:2], oh, width)[..., :ow]


def _add_taps(seen: list[tuple[slice, Array]], filters: Array, products: Array, total: Array) -> None:
    """Multiply `seen: [c, 1, length]` of each tap by the filters `[c, outputs, taps]`, and add them up in the order of
    taps.
    """
    for place, (number, view) in enumerate(seen):
        np.multiply(view, filters[:, :, number], out=products if place else total)
        if place:
            total += products


def _tap_views(rows: Array, window: Window, width: int, length: int, *, together: bool) -> list[tuple[slice, Array]]:
    """Return the elements of `rows: [sh, sw, c, h * width]` that taps read, as views `[c, taps, length]` with the tap
    numbers; with `together`, one view per row of taps if the stride allows it.
    """
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    many = kw if together and sw == 1 else 1
    views: list[tuple[slice, Array]] = []
    for i, j in product(range(kh), range(0, kw, many)):
        (down, row), (right, column) = divmod(i * dh, sh), divmod(j * dw, sw)
        first = rows[row, column, :, down * width + right :]
        channel, place = first.strides
        view = as_strided(first, (len(first), many, length), (channel, dw * place, place), writeable=False)
        views.append((slice(i * kw + j, i * kw + j + many), view))
    return views


def _phases(x: Array, window: Window, value: float) -> Array:
    """Pad `x: [n, c, h, w]` with `value` and split it by stride to `[sh, sw, n, c, h / sh, w / sw]`, where elements one
    stride apart are neighbors.
    """
    sh, sw = window.strides
    if sh == sw == 1:
        return np.ascontiguousarray(pad_images(x, window.pads, value))[None, None]
    (n, c, h, w), (top, left, bottom, right) = x.shape, window.pads
    rows, columns = top + h + bottom, left + w + right
    phases = np.full((sh, sw, n, c, -(-rows // sh), -(-columns // sw)), value, x.dtype)
    for i, j in product(range(sh), range(sw)):
        first_row, first_column = (i - top) % sh, (j - left) % sw
        part = x[:, :, first_row::sh, first_column::sw]
        down, across = (first_row + top) // sh, (first_column + left) // sw
        phases[i, j, :, :, down : down + part.shape[2], across : across + part.shape[3]] = part
    return phases


def exact_dtype(left_limit: int, right: Array) -> npt.DTypeLike:
    """Return the fastest float type that computes products with the rows of `right` exactly, for every order of
    summation.

    `left_limit`: largest magnitude of the left integers; no partial sum exceeds it times the sum of a row's magnitudes.
    Raises ValueError beyond 53 bits.
    """
    rows = np.abs(right.astype(np.int32)).reshape(right.shape[0], -1).sum(1, np.int64)
    bound = left_limit * int(rows.max(initial=0))
    for dtype, bits in _EXACT_BITS:
        if bound <= 1 << bits:
            return dtype
    raise ValueError("the integer sums of this op do not fit 53 bits")


def magnitude(x: Array) -> int:
    """Return the largest absolute value of integers, 0 for an empty array."""
    return max(-int(x.min()), int(x.max())) if x.size else 0
