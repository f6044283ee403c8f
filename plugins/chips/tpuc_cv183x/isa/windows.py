"""What convolution and pooling share: padding, inserted elements, window geometry, exact integer products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Encoding, FieldCodec, Numbers

from tpuc_cv183x.isa.bf16 import F32Array, multiply_ordered, widen
from tpuc_cv183x.isa.codecs import PAD_VALUE, extents
from tpuc_cv183x.isa.command import ComputeInstruction
from tpuc_cv183x.isa.types import Array, DType, Operand, Pair, Scalar, Shape4

Pads = tuple[int, int, int, int]
"""Top, left, bottom, right."""

_FLOAT32_EXACT = 1 << 24
_BLOCK_BYTES = 1 << 21


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window; every input row and column is followed by `insert` elements, the last by
    `insert_last`.
    """

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

    def check(self, mnemonic: str, input_size: Pair, output_size: Pair) -> None:
        """Refuse an output size other than the whole that the padded input gives."""
        if min(self.kernel) < 1 or min(self.stride) < 1:
            raise IllegalCommand(f"{mnemonic}: kernel {self.kernel} stride {self.stride}: both must be at least 1")
        for name, have, want, stride, kernel, dilation in zip(
            ("height", "width"),
            self.padded(*input_size),
            output_size,
            self.stride,
            self.kernel,
            self.dilation,
            strict=True,
        ):
            gives = (have - (kernel - 1) * dilation - 1) // stride + 1
            if gives != want:
                raise IllegalCommand(
                    f"{mnemonic}: output {name} {want}, but {have} padded input elements give {gives}; correct the pads"
                )

    def pad(self, x: Array, value: Array) -> Array:
        """`x: [n, c, h, w]` with inserted and padded elements, all of them `value`."""
        if not any((*self.pads, *self.insert, *self.insert_last)):
            return x
        n, c, h, w = x.shape
        out = np.empty((n, c, *self.padded(h, w)), x.dtype)
        out[...] = value
        (sy, sx), (top, left) = (self.insert[0] + 1, self.insert[1] + 1), self.pads[:2]
        out[:, :, top : top + (h - 1) * sy + 1 : sy, left : left + (w - 1) * sx + 1 : sx] = x
        return out

    def taps(self) -> Iterator[Pair]:
        """All kernel positions, in memory order."""
        return ((y, x) for y in range(self.kernel[0]) for x in range(self.kernel[1]))

    def shifted(self, padded: Array, tap: Pair, size: Pair, first_row: int = 0) -> Array:
        """What output elements see at one kernel position: a strided view of the padded input."""
        (sh, sw), (oh, ow) = self.stride, size
        top, left = first_row * sh + tap[0] * self.dilation[0], tap[1] * self.dilation[1]
        return padded[:, :, top : top + (oh - 1) * sh + 1 : sh, left : left + (ow - 1) * sw + 1 : sw]


@dataclass(frozen=True, kw_only=True)
class WindowInstruction(ComputeInstruction):
    """What instructions with a sliding window share. `pad_value` stands beyond the border and for inserted elements."""

    window_encoding: ClassVar[Encoding] = Encoding(
        extents("kernel", "opd1", "hw"),
        Numbers("stride", ("conv_op_y_str", "conv_op_x_str")),
        Numbers("pads", ("conv_opd0_up_pad", "conv_opd0_lf_pad", "conv_opd0_dn_pad", "conv_opd0_rt_pad")),
        Numbers("insert", ("conv_opd0_y_ins0", "conv_opd0_x_ins0")),
        Numbers("insert_last", ("conv_opd0_y_ins0_last", "conv_opd0_x_ins0_last")),
        PAD_VALUE,
    )
    dilation_encoding: ClassVar[FieldCodec] = Numbers("dilation", ("conv_opd1_y_ins0", "conv_opd1_x_ins0"), offset=1)

    result: Operand
    result_shape: Shape4
    input: Operand
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    insert_last: Pair = (0, 0)
    pad_value: int = 0

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.insert_last)


def pad_array(value: int, dtype: DType) -> Array:
    """The pad value as a 0-d array of the operand type."""
    return Scalar(value & (0xFFFF if dtype.is_float else 0xFF), dtype).value()


def convolve(x: Array, weight: Array, window: Window, output: Shape4, limit: int) -> Array:
    """`[n, oc, oh, ow]` int32 (wrapping) from padded integer `x` and `weight: [oc, kh * kw * ic]`, taps first.

    `limit` is the largest magnitude in `x`: every float32 GEMM covers so few products that its sums are exact.
    """
    n, oc, oh, ow = output
    chunks = _chunks(weight, limit)
    weight = weight.astype(np.float32)
    x = x.astype(np.float32)
    result = np.empty((n, oc, oh, ow), np.int32)
    rows = max(1, min(oh, _BLOCK_BYTES // max(1, 4 * weight.shape[1] * ow)))
    if window.kernel == (1, 1) and window.stride == (1, 1):
        rows = oh
    for image in range(n):
        for first in range(0, oh, rows):
            count = min(rows, oh - first)
            columns = _columns(x[image : image + 1], window, (count, ow), first)
            result[image, :, first : first + count] = _multiply(weight, columns, chunks).reshape(oc, count, ow)
    return result


def convolve_ordered(x: Array, weight: Array, window: Window, output: Shape4, start: Array | None) -> F32Array:
    """The same for bf16 patterns, in float32, every output added up in order of kh, kw, ic; continues from `start`."""
    n, oc, oh, ow = output
    factors, values = widen(weight), widen(x)
    result = np.empty((n, oc, oh, ow), np.float32)
    for image in range(n):
        columns = _columns(values[image : image + 1], window, (oh, ow), 0)
        before = None if start is None else start[image].reshape(oc, -1)
        result[image] = multiply_ordered(factors, columns, before).reshape(oc, oh, ow)
    return result


def _columns(x: Array, window: Window, size: Pair, first: int) -> F32Array:
    taps = list(window.taps())
    if len(taps) == 1:
        return np.ascontiguousarray(window.shifted(x, taps[0], size, first)).reshape(x.shape[1], -1)
    columns = np.empty((len(taps), x.shape[1], *size), np.float32)
    for index, tap in enumerate(taps):
        columns[index] = window.shifted(x, tap, size, first)[0]
    return columns.reshape(len(taps) * x.shape[1], -1)


def _chunks(weight: Array, limit: int) -> list[slice]:
    depth = weight.shape[1]
    magnitude = np.abs(weight.astype(np.int32))
    if int(magnitude.sum(axis=1, dtype=np.int64).max(initial=0)) * limit <= _FLOAT32_EXACT:
        return [slice(0, depth)]
    step = max(1, _FLOAT32_EXACT // (int(magnitude.max()) * limit))
    return [slice(first, min(first + step, depth)) for first in range(0, depth, step)]


def _multiply(weight: F32Array, columns: F32Array, chunks: list[slice]) -> Array:
    if len(chunks) == 1:
        return (weight @ columns).astype(np.int32)
    total = np.zeros((weight.shape[0], columns.shape[1]), np.int32)
    for chunk in chunks:
        total += (weight[:, chunk] @ columns[chunk]).astype(np.int32)
    return total


def exact_matmul(left: Array, right: Array, limit: int) -> Array:
    """Integer `left @ right` as int32 (wrapping); `limit` is the largest magnitude in `right`."""
    return _multiply(left.astype(np.float32), right.astype(np.float32), _chunks(left, limit))
