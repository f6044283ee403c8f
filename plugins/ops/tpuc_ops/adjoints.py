"""Compute gradients with respect to the operands of convolutions, pools, matrix products, and sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.convolution import as_images, convolve
from tpuc_ops.products import matmul
from tpuc_ops.window import Extents, Window

MOST_ELEMENTS = 1 << 21
"""Maximum number of elements in products of several taps computed together, 16 MiB in float64."""


def _taps(window: Window, size: Extents) -> Iterator[tuple[Extents, tuple[slice, ...]]]:
    """Yield every tap with the elements of the padded operand that it reads for a result of `size`."""
    for tap in np.ndindex(*window.kernel):
        along = zip(tap, size, window.strides, window.dilations, strict=True)
        firsts = [(place * dilation, count, stride) for place, count, stride, dilation in along]
        yield tap, tuple(slice(first, first + (count - 1) * stride + 1, stride) for first, count, stride in firsts)


def _padded(shape: tuple[int, ...], window: Window, size: Extents) -> Extents:
    """Return extents that hold the operand, its padding, and the overhang of the last windows."""
    rank = len(size)
    reach = [(count - 1) * window.strides[axis] + window.extents[axis] for axis, count in enumerate(size)]
    own = [window.pads[axis] + shape[axis + 2] + window.pads[axis + rank] for axis in range(rank)]
    return tuple(map(max, own, reach))


def _inside(padded: Array, shape: tuple[int, ...], window: Window) -> Array:
    places = (slice(first, first + extent) for first, extent in zip(window.pads, shape[2:], strict=False))
    return padded[(slice(None), slice(None), *places)]


def _backwards(window: Window) -> Window | None:
    """Return the window of the convolution that computes the gradient of a convolution with stride 1; None for
    others.
    """
    rank = len(window.kernel)
    pads = tuple(window.extents[axis % rank] - 1 - pad for axis, pad in enumerate(window.pads))
    return None if set(window.strides) != {1} or min(pads) < 0 else replace(window, pads=pads)


def _turned(filters: Array, group: int) -> Array:
    """Transpose and flip filters: `[oc, ic / group, kh, kw]` to `[ic, oc / group, kh, kw]`, with both kernel dimensions
    reversed.
    """
    outputs, inputs, *kernel = filters.shape
    grouped = filters.reshape(group, outputs // group, inputs, *kernel).swapaxes(1, 2)[..., ::-1, ::-1]
    return np.ascontiguousarray(grouped).reshape(group * inputs, outputs // group, *kernel)


def image_gradient(gradient: Array, weight: Array, shape: tuple[int, ...], window: Window, group: int) -> Array:
    """Gradient of a convolution with respect to its images, or volumes, of `shape`."""
    gradient, filters = as_images(gradient), as_images(weight)
    images = (shape[0], shape[1], 1, shape[2]) if len(shape) == 3 else shape
    n, outputs, *size = gradient.shape
    inputs = images[1]
    back = _backwards(window)
    if back is not None and len(size) == 2:
        return convolve(gradient, _turned(filters, group), back, group).reshape(shape)
    result = np.zeros((n, group, inputs // group, *_padded(images, window, tuple(size))), np.float32)
    flat = gradient.reshape(n, group, outputs // group, -1)
    parts = filters.reshape(group, outputs // group, inputs // group, *filters.shape[2:])
    is_depthwise = inputs // group == 1 and outputs == group
    taps = [*_taps(window, tuple(size))]
    together = 1 if is_depthwise else max(MOST_ELEMENTS // (n * inputs * flat.shape[-1]), 1)
    for first in range(0, len(taps), together):
        some = taps[first : first + together]
        if is_depthwise:
            products = flat * parts[(..., *some[0][0])].reshape(1, group, 1, 1)
        else:
            rows = np.concatenate([parts[(..., *place)].swapaxes(1, 2) for place, _ in some], axis=1)
            products = matmul(rows, flat)
        products = products.reshape(n, group, len(some), inputs // group, *size)
        for number, (_, places) in enumerate(some):
            result[(..., *places)] += products[:, :, number]
    result = result.reshape(n, inputs, *result.shape[3:])
    return np.ascontiguousarray(_inside(result, images, window)).reshape(shape)


def pool_gradient(
    gradient: Array, shape: tuple[int, ...], window: Window, x: Array | None = None, result: Array | None = None
) -> Array:
    """Gradient of a windowed sum; of a windowed maximum if `x` and its `result` are given (all of equal maxima
    count).
    """
    images = (shape[0], shape[1], 1, shape[2]) if len(shape) == 3 else shape
    size = window.output(images[2:])
    gradient = gradient.reshape(*images[:2], *size)
    extents = _padded(images, window, size)
    sums = np.zeros((*images[:2], *extents), np.float32)
    source: Array | None = None
    if x is not None and result is not None:
        source = np.full(sums.shape, -np.inf, np.float32)
        _inside(source, images, window)[...] = x.reshape(images)
        result = result.reshape(gradient.shape)
    for _, places in _taps(window, size):
        part = gradient if source is None else gradient * (source[(..., *places)] == result)
        sums[(..., *places)] += part
    return np.ascontiguousarray(_inside(sums, images, window)).reshape(shape)


def matrix_gradient(op: Any, left: Array, right: Array, gradient: Array) -> tuple[Array, Array]:
    """Gradients of a matrix product with respect to both operands, in their stored layout."""
    if left.ndim == 1:
        gradient = gradient[..., None, :]
    gradient = np.swapaxes(gradient, -1, -2) if op.output_transpose else gradient
    if gradient.ndim < max(left.ndim, right.ndim, 2):  # without kept dimensions
        gradient = gradient.reshape(*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), -1, gradient.shape[-1])
    a = np.swapaxes(left, -1, -2) if op.left_transpose else left
    b = np.swapaxes(right, -1, -2) if op.right_transpose else right
    a = a[None] if a.ndim == 1 else a
    for_left = matmul(gradient, np.swapaxes(b, -1, -2))
    for_right = matmul(np.swapaxes(a, -1, -2), gradient)
    for_left = np.swapaxes(for_left, -1, -2) if op.left_transpose else for_left
    for_right = np.swapaxes(for_right, -1, -2) if op.right_transpose else for_right
    return _summed(for_left, left.shape), _summed(for_right, right.shape)


def _summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the dimensions that broadcasting has repeated."""
    extra = gradient.ndim - len(shape)
    gradient = gradient.sum(axis=tuple(range(extra))) if extra > 0 else gradient
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return (gradient.sum(axis=axes, keepdims=True) if axes else gradient).reshape(shape)


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Gradient with respect to an operand of `shape` that was broadcast to the gradient's shape."""
    extra = gradient.ndim - len(shape)
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(shape) if size == 1))
    return gradient.sum(axis=axes, keepdims=True).reshape(shape) if axes else gradient


def sum_gradients(operands: Sequence[Array], gradient: Array, factors: Sequence[float]) -> list[Array]:
    """Gradients of a weighted sum with respect to its operands."""
    return [
        unbroadcast(gradient * np.float32(factor), array.shape)
        for factor, array in zip(factors, operands, strict=False)
    ]


def is_open(result: Array, limit: float) -> Array:
    """Mask of the elements where a relu with this `result` has gradient 1."""
    return (result > 0) & (result < limit) if limit > 0 else result > 0
