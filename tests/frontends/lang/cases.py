"""Calls of the functions that networks of floats need, with what numpy makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tpuc_lang as tl

from tests.frontends.lang.programs import Array, const, numbers

SHAPE = (1, 4, 6, 5)
X, Y = numbers(*SHAPE), numbers(*SHAPE, seed=1)
Build = Callable[[tl.Tensor, tl.Tensor], tl.Tensor]


@dataclass(frozen=True, eq=False)
class Case:
    """What is built of two inputs, and the numbers that it stands for. `group`: networks that are compiled together."""

    build: Build
    wanted: Array
    group: str = "moves"


def mirrored() -> Array:
    return np.pad(X, ((0, 0), (1, 2), (0, 0), (3, 0)), mode="symmetric")


def turned(x: Array) -> Array:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)


def volumes(x: tl.Tensor) -> tl.Tensor:
    return tl.reshape(x, [1, 2, 4, 3, 5])


VOLUMES = X.reshape(1, 2, 4, 3, 5)


def convolved_volumes(x: Array, w: Array, strides: tuple[int, int, int], pads: tuple[int, ...]) -> Array:
    """Sums over all taps, one result after the other; pads are all before, then all after."""
    x = np.pad(x, ((0, 0), (0, 0), *zip(pads[:3], pads[3:], strict=True)))
    sizes = [(x.shape[axis + 2] - w.shape[axis + 2]) // strides[axis] + 1 for axis in range(3)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    for place in np.ndindex(*sizes):
        part = x[(slice(None), slice(None), *_taps(place, strides, w.shape[2:]))]
        result[(slice(None), slice(None), *place)] = np.einsum("ncdhw,ocdhw->no", part, w)
    return result


def _taps(place: tuple[int, ...], strides: tuple[int, ...], kernel: tuple[int, ...]) -> list[slice]:
    return [slice(at * step, at * step + taps) for at, step, taps in zip(place, strides, kernel, strict=True)]


def spread_volumes(x: Array, w: Array, strides: tuple[int, int, int]) -> Array:
    """Every element adds its multiple of the filter `[oc, c, kd, kh, kw]`."""
    sizes = [(x.shape[axis + 2] - 1) * strides[axis] + w.shape[axis + 2] for axis in range(3)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    for place in np.ndindex(*x.shape[2:]):
        values = x[(slice(None), slice(None), *place)]
        target = (slice(None), slice(None), *_taps(place, strides, w.shape[2:]))
        result[target] += np.einsum("nc,ocdhw->nodhw", values, w)
    return result


def pooled_volumes(reduce: Callable[..., Array], kernel: int, stride: int) -> Array:
    sizes = [(extent - kernel) // stride + 1 for extent in VOLUMES.shape[2:]]
    result = np.zeros((1, 2, *sizes))
    for place in np.ndindex(*sizes):
        taps = _taps(place, (stride,) * 3, (kernel,) * 3)
        result[(slice(None), slice(None), *place)] = reduce(VOLUMES[(slice(None), slice(None), *taps)], axis=(2, 3, 4))
    return result


W3 = numbers(3, 2, 2, 2, 3)
LEVELS = np.array([0, 1, 1])
ROIS = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 4, 5], [0, 0, 2, 4, 4]], np.float32)


def aligned(image: Array, roi: Array, scale: float, cells: int, samples: int) -> Array:
    """The mean of bilinear samples in each cell of a region, whose edges count from the corners of elements."""
    left, top, right, bottom = (float(edge) * scale for edge in roi)
    height, width = max(bottom - top, 1.0) / cells, max(right - left, 1.0) / cells
    result = np.zeros((image.shape[0], cells, cells))
    for row, column, i, j in np.ndindex(cells, cells, samples, samples):
        y = min(max(top + (row + (i + 0.5) / samples) * height, 0.0), image.shape[1] - 1)
        x = min(max(left + (column + (j + 0.5) / samples) * width, 0.0), image.shape[2] - 1)
        y0, x0 = int(y), int(x)
        y1, x1 = min(y0 + 1, image.shape[1] - 1), min(x0 + 1, image.shape[2] - 1)
        up = image[:, y0, x0] * (1 - x + x0) + image[:, y0, x1] * (x - x0)
        down = image[:, y1, x0] * (1 - x + x0) + image[:, y1, x1] * (x - x0)
        result[:, row, column] += (up * (1 - y + y0) + down * (y - y0)) / samples**2
    return result


CASES: dict[str, Case] = {
    "argsort": Case(lambda x, _: tl.argsort(x), np.argsort(-X, -1, kind="stable"), "order"),
    "avgpool2d all": Case(lambda x, _: tl.avgpool2d(x), X.mean((2, 3), keepdims=True), "windows"),
    "avgpool2d": Case(
        lambda x, _: tl.avgpool2d(x, [2, 2], [2, 2], [1, 0, 1, 0], count_include_pad=True),
        np.pad(X, ((0, 0), (0, 0), (1, 1), (0, 0)))[..., :4].reshape(1, 4, 4, 2, 2, 2).mean((3, 5)),
        "windows",
    ),
    "avgpool3d": Case(lambda x, _: tl.avgpool3d(volumes(x), 2, 2), pooled_volumes(np.mean, 2, 2), "volumes"),
    "broadcast": Case(lambda x, _: tl.broadcast(x, [3, 1, 6, 1]), np.repeat(X, 3, 0)),
    "clamp": Case(lambda x, _: tl.clamp(x, -0.5, 0.25), X.clip(-0.5, 0.25), "arithmetic"),
    "conv": Case(
        lambda x, _: tl.conv(x, const(numbers(3, 4, 2, 2)), const(numbers(3)), [2, 1], None, [1, 0, 0, 2]),
        convolved_volumes(X[:, :, None], numbers(3, 4, 2, 2)[:, :, None], (1, 2, 1), (0, 1, 0, 0, 0, 2))[:, :, 0]
        + numbers(3).reshape(3, 1, 1),
        "products",
    ),
    "conv3d": Case(
        lambda x, _: tl.conv3d(volumes(x), const(W3), None, [2, 1, 1], None, [1, 0, 0, 0, 0, 2]),
        convolved_volumes(VOLUMES, W3, (2, 1, 1), (1, 0, 0, 0, 0, 2)),
        "volumes",
    ),
    "conv3d_v2": Case(
        lambda x, _: tl.conv3d_v2(volumes(x), const(W3), pad=[1, 0, 0, 0, 0, 2]),
        convolved_volumes(VOLUMES, W3, (1, 1, 1), (1, 0, 0, 0, 0, 2)),
        "volumes",
    ),
    "deconv": Case(
        lambda x, _: tl.deconv(x, const(numbers(3, 4, 2, 3)), None, [2, 1], None, [1, 0, 1, 1], [1, 0]),
        spread_volumes(X[:, :, None], numbers(3, 4, 2, 3)[:, :, None], (1, 2, 1))[:, :, 0, 1:, :-1],
        "products",
    ),
    "deconv3d": Case(
        lambda x, _: tl.deconv3d(volumes(x), const(W3), const(numbers(3)), [2, 1, 3], None, [1, 0, 0, 0, 1, 0]),
        spread_volumes(VOLUMES, W3, (2, 1, 3))[:, :, 1:, :-1] + numbers(3).reshape(3, 1, 1, 1),
        "volumes",
    ),
    "deconv3d_v2": Case(
        lambda x, _: tl.deconv3d_v2(volumes(x), const(W3), stride=[1, 2, 1], output_padding=[0, 1, 0]),
        np.pad(spread_volumes(VOLUMES, W3, (1, 2, 1)), ((0, 0), (0, 0), (0, 0), (0, 1), (0, 0))),
        "volumes",
    ),
    "eqs": Case(lambda x, _: tl.eqs(tl.round(x), 0), np.rint(X) == 0, "relations"),
    "extract": Case(lambda x, _: tl.extract(x, [0, 1, 0, 4], None, [1, 2, 1, 1]), X[:, 1::2, :, 4:]),
    "ges": Case(lambda x, _: tl.ges(x, tl.Scalar(0.5)), X >= 0.5, "relations"),
    "gts": Case(lambda x, _: tl.gts(x, 0.5), X > 0.5, "relations"),
    "index_select": Case(lambda x, _: tl.index_select(x, const(np.array([3]), "int32"), 1, keep_dims=False), X[:, 3]),
    "interpolate": Case(lambda x, _: tl.interpolate(x, 2, 3), X.repeat(2, 2).repeat(3, 3), "windows"),
    "interpolate_v2": Case(
        lambda x, _: tl.interpolate_v2(x, sizes=const(np.array([1, 4, 12, 5]), "int32")), X.repeat(2, 2), "windows"
    ),
    "interpolate rows": Case(
        lambda x, _: tl.interpolate(tl.reshape(x, [24, 5]), 1, 2), X.reshape(24, 5).repeat(2, 1), "windows"
    ),
    "les": Case(lambda x, _: tl.les(x, 0.5), X <= 0.5, "relations"),
    "lts": Case(lambda x, _: tl.lts(x, 0.5), X < 0.5, "relations"),
    "matmul": Case(
        lambda x, y: tl.matmul(x, y, const(numbers(6)), right_transpose=True, keep_dims=False),
        (X @ Y.swapaxes(2, 3) + numbers(6)).reshape(24, 6),
        "products",
    ),
    "matmul transposed": Case(
        lambda x, y: tl.matmul(x, y, left_transpose=True, output_transpose=True),
        (X.swapaxes(2, 3) @ Y).swapaxes(2, 3),
        "products",
    ),
    "matrix_mul": Case(lambda x, _: tl.matrix_mul(x, const(numbers(5, 2))), X @ numbers(5, 2), "products"),
    "maxpool2d": Case(
        lambda x, _: tl.maxpool2d(x, [2, 2], [2, 2], [0, 1, 0, 0]),
        np.pad(X, ((0, 0), (0, 0), (0, 0), (1, 0)), constant_values=-9).reshape(1, 4, 3, 2, 3, 2).max((3, 5)),
        "windows",
    ),
    "maxpool2d_with_mask": Case(
        lambda x, _: tl.maxpool2d_with_mask(x, [2, 5], [2, 1])[1],
        X.reshape(1, 4, 3, 10).argmax(-1)[..., None] + np.arange(3).reshape(3, 1) * 10,
        "windows",
    ),
    "maxpool2d_with_mask value": Case(
        lambda x, _: tl.maxpool2d_with_mask(x, [4, 5], [4, 1], ceil_mode=True)[0],
        np.stack([X[:, :, :4].max((2, 3)), X[:, :, 4:].max((2, 3))], 2)[..., None],
        "windows",
    ),
    "maxpool3d": Case(lambda x, _: tl.maxpool3d(volumes(x), 2, 1), pooled_volumes(np.max, 2, 1), "volumes"),
    "mean_std_scale": Case(
        lambda x, _: tl.mean_std_scale(x, [1, 2, 4, 0.5], [0.1, 0.2, 0.3, 0.4], odtype="float32"),
        (X - np.array([0.1, 0.2, 0.3, 0.4]).reshape(4, 1, 1)) / np.array([1, 2, 4, 0.5]).reshape(4, 1, 1),
        "arithmetic",
    ),
    "nes": Case(lambda x, _: tl.nes(tl.round(x), 0), np.rint(X) != 0, "relations"),
    "normalize": Case(
        lambda x, _: tl.normalize(x, axes=[1, 2]), X / np.sqrt((X**2).sum((1, 2), keepdims=True)), "arithmetic"
    ),
    "normalize cubes": Case(
        lambda x, _: tl.normalize(x, 3.0, 3),
        X / (np.abs(X) ** 3).sum(3, keepdims=True) ** (1 / 3),
        "arithmetic",
    ),
    "normalize sums": Case(lambda x, _: tl.normalize(x, 1.0, 3), X / np.abs(X).sum(3, keepdims=True), "arithmetic"),
    "pad symmetric": Case(lambda x, _: tl.pad(x, "symmetric", padding=[0, 1, 0, 3, 0, 2, 0, 0]), mirrored()),
    "reduce all": Case(lambda x, _: tl.reduce(x, "ReduceMax", keep_dims=True), X.max(keepdims=True), "windows"),
    "repeat": Case(lambda x, _: tl.repeat(x, const(np.array([1, 2, 1, 1]), "int32")), np.tile(X, (1, 2, 1, 1))),
    "reshape tensor": Case(lambda x, _: tl.reshape(x, const(np.array([4, -1]), "int32")), X.reshape(4, 30)),
    "roiExtractor": Case(
        lambda x, y: tl.roiExtractor(const(ROIS), const(LEVELS, "int32"), [x, y], 2, 2, 2, [1, 2], "DynFuse"),
        np.stack(
            [
                aligned((X, Y)[level][0], roi[1:], 1 / (1, 2)[level], 2, 2)
                for level, roi in zip(LEVELS, ROIS, strict=True)
            ]
        ),
        "regions",
    ),
    "roiExtractor of seven": Case(
        lambda x, y: tl.roiExtractor(
            const(np.pad(ROIS, ((0, 0), (1, 1)))), const(LEVELS, "int32"), [x, y], 2, 2, 2, [1, 2], "DynNormal"
        ),
        np.stack(
            [
                aligned((X, Y)[level][0], roi[1:], 1 / (1, 2)[level], 2, 2)
                for level, roi in zip(LEVELS, ROIS, strict=True)
            ]
        ),
        "regions",
    ),
    "roll": Case(lambda x, _: tl.roll(x, [2, -1], [1, 3]), np.roll(X, (2, -1), (1, 3))),
    "roll flat": Case(lambda x, _: tl.roll(x, 7), np.roll(X, 7)),
    "rope": Case(
        lambda x, _: tl.rope(tl.permute(x, [0, 1, 3, 2]), const(numbers(5, 6)), const(numbers(5, 6, seed=3))),
        turned(X.swapaxes(2, 3)) * numbers(5, 6) + X.swapaxes(2, 3) * numbers(5, 6, seed=3),
        "arithmetic",
    ),
    "rope by the second": Case(
        lambda x, _: tl.rope(
            tl.permute(x, [0, 1, 3, 2]), const(numbers(4, 6)), const(numbers(4, 6, seed=3)), is_permute_optimize=True
        ),
        turned(X.swapaxes(2, 3)) * numbers(4, 6)[:, None] + X.swapaxes(2, 3) * numbers(4, 6, seed=3)[:, None],
        "arithmetic",
    ),
    "select": Case(lambda x, y: tl.select(x, y, y, x, "Less"), np.maximum(X, Y), "relations"),
    "shape_fetch": Case(
        lambda x, _: tl.mul(tl.cast(tl.shape_fetch(x, 1, 4, 2)), tl.reduce(x, axis=[1, 2, 3], keep_dims=True)),
        np.array([4, 5]) * X.sum(keepdims=True),
        "arithmetic",
    ),
    "sort": Case(lambda x, _: tl.sort(x, 1, descending=False)[0], np.sort(X, 1), "order"),
    "sort places": Case(lambda x, _: tl.sort(x)[1], np.argsort(-X, -1, kind="stable"), "order"),
    "sort_by_key": Case(
        lambda x, y: tl.sort_by_key(x, tl.reduce(y, "ReduceSum", [0, 2, 3]), 1, descending=False)[0],
        X[:, np.argsort(Y.sum((0, 2, 3)))],
        "order",
    ),
    "sort_by_key keys": Case(
        lambda x, y: tl.sort_by_key(x, tl.reduce(y, "ReduceSum", [0, 2, 3]), 1)[1],
        np.sort(Y.sum((0, 2, 3)))[::-1],
        "order",
    ),
    "squeeze all": Case(lambda x, _: tl.squeeze(x), X[0]),
    "swish": Case(lambda x, _: tl.swish(x, tl.Scalar(2)), X / (1 + np.exp(-2 * X)), "arithmetic"),
    "tan": Case(lambda x, _: tl.tan(x), np.vectorize(math.tan)(X), "arithmetic"),
    "unsqueeze": Case(lambda x, _: tl.unsqueeze(x), X[:, None, None]),
}
