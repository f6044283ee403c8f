"""What Caffe's layers mean, written down place by place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.frontends.caffe.files import Array


def convolution(
    x: Array, w: Array, stride: Sequence[int], pad: Sequence[int], dilation: int = 1, group: int = 1
) -> Array:
    """`x: [n, c, h, w]`, `w: [oc, c / group, kh, kw]`."""
    n, c, _, _ = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2)).astype(np.float64)
    kh, kw = ((k - 1) * dilation + 1 for k in w.shape[2:])
    oh, ow = (padded.shape[2] - kh) // stride[0] + 1, (padded.shape[3] - kw) // stride[1] + 1
    result = np.zeros((n, len(w), oh, ow))
    for o in range(len(w)):
        first = o // (len(w) // group) * (c // group)
        for i in range(oh):
            for j in range(ow):
                top, left = i * stride[0], j * stride[1]
                part = padded[:, first : first + c // group, top : top + kh : dilation, left : left + kw : dilation]
                result[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return result


def deconvolution(x: Array, w: Array, stride: int, pad: int, group: int = 1) -> Array:
    """`w: [c, oc / group, kh, kw]`: every element adds its multiple of the filter."""
    n, c, h, width = x.shape
    _, per_group, kh, kw = w.shape
    full = np.zeros((n, per_group * group, (h - 1) * stride + kh, (width - 1) * stride + kw))
    for channel in range(c):
        first = channel // (c // group) * per_group
        for i in range(h):
            for j in range(width):
                place = full[:, first : first + per_group, i * stride : i * stride + kh, j * stride : j * stride + kw]
                place += x[:, channel, i, j, None, None, None] * w[channel]
    return full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]


def pool(x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], mean: bool) -> Array:
    """Windows rounded up, none begins behind the image; means divide by what of the window the padding holds."""
    n, c, *size = x.shape
    counts = [math.ceil((size[a] + 2 * pad[a] - kernel[a]) / stride[a]) + 1 for a in (0, 1)]
    counts = [
        count - 1 if pad[a] and (count - 1) * stride[a] >= size[a] + pad[a] else count for a, count in enumerate(counts)
    ]
    result = np.zeros((n, c, *counts))
    for i in range(counts[0]):
        for j in range(counts[1]):
            start = [i * stride[0] - pad[0], j * stride[1] - pad[1]]
            end = [min(start[a] + kernel[a], size[a] + pad[a]) for a in (0, 1)]
            area = (end[0] - start[0]) * (end[1] - start[1])
            part = x[:, :, max(start[0], 0) : min(end[0], size[0]), max(start[1], 0) : min(end[1], size[1])]
            result[:, :, i, j] = part.sum((2, 3)) / area if mean else part.max((2, 3))
    return result


def lrn(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    """Over neighboring channels."""
    result = np.zeros(x.shape)
    for channel in range(x.shape[1]):
        near = x[:, max(channel - size // 2, 0) : channel + size // 2 + 1].astype(np.float64)
        result[:, channel] = x[:, channel] / (k + alpha / size * (near**2).sum(1)) ** beta
    return result


def lstm(x: Array, w: Array, b: Array, u: Array) -> Array:
    """Gates in the order input, forget, output, cell; states begin at zero."""

    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    h = c = np.zeros((x.shape[1], u.shape[1]))
    rows: list[Array] = []
    for step in x:
        i, f, o, g = np.split(step @ w.T + b + h @ u.T, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows)


def reorg(x: Array, stride: int) -> Array:
    """Index by index: the operand is read as if it had `c / s^2` channels of `s` times the rows and columns."""
    n, c, h, w = x.shape
    few = c // (stride * stride)
    flat, result = x.reshape(n, -1), np.zeros((n, c * h * w))
    for k in range(c):
        for j in range(h):
            for i in range(w):
                channel, offset = k % few, k // few
                column, row = i * stride + offset % stride, j * stride + offset // stride
                result[:, i + w * (j + h * k)] = flat[:, column + w * stride * (row + h * stride * channel)]
    return result.reshape(n, c * stride * stride, h // stride, w // stride)
