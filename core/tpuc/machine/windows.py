"""Sliding windows for simulators: geometry, padding, columns, exact integer products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Pair: TypeAlias = tuple[int, int]
Pads: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom, right."""

_FLOAT32_EXACT = 1 << 24
_BLOCK_BYTES = 1 << 21


@dataclass(frozen=True)
class SlidingWindow:
    """Geometry of a window. `insert` elements are inserted between rows and columns, `insert_last` after the last."""

    kernel: Pair
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    insert_last: Pair = (0, 0)

    def padded(self, height: int, width: int) -> Pair:
        """Input size with inserted and padded elements."""
        top, left, bottom, right = self.pads
        return (
            (height - 1) * (self.insert[0] + 1) + 1 + self.insert_last[0] + top + bottom,
            (width - 1) * (self.insert[1] + 1) + 1 + self.insert_last[1] + left + right,
        )

    def axes(self, input_size: Pair, output_size: Pair) -> Sequence[tuple[str, int, int, int, int]]:
        """Rows and columns: name, padded input elements, output elements, stride, extent of the dilated kernel."""
        have = self.padded(*input_size)
        extents = [(size - 1) * step + 1 for size, step in zip(self.kernel, self.dilation, strict=True)]
        return [*zip(("height", "width"), have, output_size, self.stride, extents, strict=True)]

    def pad(self, x: Array, value: Array, between: Array | None = None) -> Array:
        """`x: [n, c, h, w]` with padded elements `value` and inserted ones `between`, by default `value` too."""
        if not any((*self.pads, *self.insert, *self.insert_last)):
            return x
        n, c, h, w = x.shape
        height, width = self.padded(h, w)
        (sy, sx), (top, left) = (self.insert[0] + 1, self.insert[1] + 1), self.pads[:2]
        rows = slice(top, top + (h - 1) * sy + 1)
        columns = slice(left, left + (w - 1) * sx + 1)
        out = np.empty((n, c, height, width), x.dtype)
        out[...] = value
        if between is not None and any(self.insert):
            out[:, :, rows, columns] = between
        out[:, :, rows.start : rows.stop : sy, columns.start : columns.stop : sx] = x
        return out

    def taps(self) -> list[Pair]:
        """All kernel positions, in memory order."""
        return [(y, x) for y in range(self.kernel[0]) for x in range(self.kernel[1])]

    def shifted(self, padded: Array, tap: Pair, size: Pair, first_row: int = 0) -> Array:
        """The input elements at one kernel position for all outputs: a strided view of the padded input."""
        (sh, sw), (oh, ow) = self.stride, size
        top, left = first_row * sh + tap[0] * self.dilation[0], tap[1] * self.dilation[1]
        return padded[:, :, top : top + (oh - 1) * sh + 1 : sh, left : left + (ow - 1) * sw + 1 : sw]

    def columns(self, x: Array, size: Pair, first: int, piece: int) -> Array:
        """Im2col of the padded image `x: [c, h, w]`: [c / piece][kh * kw][piece] rows of float32."""
        taps, pieces = self.taps(), x.reshape(-1, piece, *x.shape[1:])
        if len(taps) == 1:
            return np.ascontiguousarray(self.shifted(x[None], taps[0], size, first)).reshape(x.shape[0], -1)
        columns = np.empty((len(pieces), len(taps), piece, *size), np.float32)
        for index, tap in enumerate(taps):
            columns[:, index] = self.shifted(pieces, tap, size, first)
        return columns.reshape(len(taps) * x.shape[0], -1)


Product: TypeAlias = Callable[[Array, tuple[int, slice]], Array]
"""Sums `[oc, rows * ow]` from columns `[depth, rows * ow]` of a batch and a range of rows."""


def convolve(
    x: Array,
    window: SlidingWindow,
    output: tuple[int, int, int, int],
    piece: int,
    multiply: Product,
    kind: np.dtype[Any],
) -> Array:
    """`[n, oc, oh, ow]` from padded `x`; the products of one sum are ordered [ic / piece][kh * kw][piece]."""
    n, oc, oh, ow = output
    x = x.astype(np.float32)
    depth = x.shape[1] * window.kernel[0] * window.kernel[1]
    result = np.empty((n, oc, oh, ow), kind)
    rows = max(1, min(oh, _BLOCK_BYTES // max(1, 4 * depth * ow)))
    if window.kernel == (1, 1) and window.stride == (1, 1):
        rows = oh
    for image in range(n):
        for first in range(0, oh, rows):
            count = min(rows, oh - first)
            columns = window.columns(x[image], (count, ow), first, piece)
            product = multiply(columns, (image, slice(first, first + count)))
            result[image, :, first : first + count] = product.reshape(oc, count, ow)
    return result


def exact_matmul(left: Array, right: Array, limit: int) -> Array:
    """Integer `left @ right` as int32; `limit` is the largest magnitude in `right`."""
    return exact_product(left, limit)(right)


def exact_product(left: Array, limit: int) -> Callable[[Array], Array]:
    """Integer products with `left`: every GEMM covers so few terms that partial sums stay exact in float32."""
    chunks, floats = _chunks(left, limit), left.astype(np.float32)
    return lambda right: _multiply(floats, right.astype(np.float32, copy=False), chunks)


def _chunks(weight: Array, limit: int) -> list[slice]:
    depth = weight.shape[1]
    magnitude = np.abs(weight.astype(np.int32))
    if int(magnitude.sum(axis=1, dtype=np.int64).max(initial=0)) * limit <= _FLOAT32_EXACT:
        return [slice(0, depth)]
    step = max(1, _FLOAT32_EXACT // (int(magnitude.max()) * limit))
    return [slice(first, min(first + step, depth)) for first in range(0, depth, step)]


def _multiply(weight: Array, columns: Array, chunks: list[slice]) -> Array:
    if len(chunks) == 1:
        return (weight @ columns).astype(np.int32)
    total = np.zeros((weight.shape[0], columns.shape[1]), np.int32)
    for chunk in chunks:
        total += (weight[:, chunk] @ columns[chunk]).astype(np.int32)
    return total
