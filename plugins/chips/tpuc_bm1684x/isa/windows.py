"""What convolution and pooling share: padding, inserted zeros, window geometry, exact integer products."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Coded, Encoding, Numbers, flag

from tpuc_bm1684x.isa.codecs import Tensor, extents
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.types import Array, DType, Layout, Pair, Scalar, Shape4, Source

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine

Pads = tuple[int, int, int, int]
"""Top, left, bottom, right."""

_FLOAT32_EXACT = 1 << 24
_BLOCK_BYTES = 1 << 21


class PadMode(enum.IntEnum):
    """What stands beyond the border."""

    CONSTANT = 0
    REFLECT = 1
    EDGE = 2
    WRAP = 3


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window; `insert` zeros (or table values) stand between input elements."""

    kernel: Pair
    stride: Pair
    pads: Pads
    dilation: Pair
    insert: Pair
    pad_mode: PadMode
    rotate: bool

    def padded(self, height: int, width: int) -> Pair:
        """Input size with inserted zeros and padding."""
        top, left, bottom, right = self.pads
        return (
            (height - 1) * (self.insert[0] + 1) + 1 + top + bottom,
            (width - 1) * (self.insert[1] + 1) + 1 + left + right,
        )

    def check(self, mnemonic: str, input_size: Pair, output_size: Pair) -> None:
        """Refuse windows that leave the padded input."""
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
            needed = (want - 1) * stride + (kernel - 1) * dilation + 1
            if needed > have:
                raise IllegalCommand(
                    f"{mnemonic}: output {name} {want} needs {needed} padded input elements, there are {have}; "
                    "reduce it or pad more"
                )

    def pad(self, x: Array, value: Array, between: Array) -> Array:
        """`x: [n, c, h, w]` with inserted and padded elements; both values are 0-d or [1, c, 1, 1]."""
        n, c, h, w = x.shape
        top, left = self.pads[:2]
        if self.pad_mode is not PadMode.CONSTANT and any(self.pads):
            if any(self.insert):
                x = self._inserted(x, between)
            return self._extended(x)
        if not any(self.pads) and not any(self.insert):
            return x
        inner = self._inserted(x, between)
        height, width = self.padded(h, w)
        out = np.empty((n, c, height, width), x.dtype)
        out[...] = value
        out[:, :, top : top + inner.shape[2], left : left + inner.shape[3]] = inner
        return out

    def _extended(self, x: Array) -> Array:
        top, left, bottom, right = self.pads
        widths = ((0, 0), (0, 0), (top, bottom), (left, right))
        match self.pad_mode:
            case PadMode.REFLECT:
                return np.pad(x, widths, mode="reflect")
            case PadMode.EDGE:
                return np.pad(x, widths, mode="edge")
            case _:
                return np.pad(x, widths, mode="wrap")

    def _inserted(self, x: Array, between: Array) -> Array:
        if not any(self.insert):
            return x
        n, c, h, w = x.shape
        out = np.empty((n, c, (h - 1) * (self.insert[0] + 1) + 1, (w - 1) * (self.insert[1] + 1) + 1), x.dtype)
        out[...] = between
        out[:, :, :: self.insert[0] + 1, :: self.insert[1] + 1] = x
        return out

    def taps(self) -> list[Pair]:
        """All kernel positions, in memory order."""
        return [(y, x) for y in range(self.kernel[0]) for x in range(self.kernel[1])]

    def shifted(self, padded: Array, tap: Pair, output_size: Pair, first_row: int = 0) -> Array:
        """What output elements see at one kernel position: a strided view of the padded input."""
        (sh, sw), (oh, ow) = self.stride, output_size
        top, left = first_row * sh + tap[0] * self.dilation[0], tap[1] * self.dilation[1]
        return padded[:, :, top : top + (oh - 1) * sh + 1 : sh, left : left + (ow - 1) * sw + 1 : sw]


def pad_values(machine: Machine, source: Source | None, channels: int, dtype: DType) -> tuple[Array, Array]:
    """Values beyond the border and between elements: an immediate and 0, or the two columns of a per-channel table."""
    zero = np.zeros((), dtype.numpy)
    if source is None:
        return zero, zero
    if isinstance(source, Scalar):
        return source.value(), zero
    table = machine.load(source, (1, channels, 1, 2))
    return table[..., :1], table[..., 1:]


@dataclass(frozen=True, kw_only=True)
class WindowInstruction(ComputeInstruction):
    """What commands with a sliding window share."""

    window_encoding: ClassVar[Encoding] = Encoding(
        extents("kernel", "opd1", "hw"),
        Numbers("stride", ("res_op_y_str", "res_op_x_str")),
        Numbers("pads", ("opd0_up_pad", "opd0_lf_pad", "opd0_dn_pad", "opd0_rt_pad")),
        Numbers("dilation", ("opd1_y_ins0", "opd1_x_ins0"), offset=1),
        Numbers("insert", ("opd0_y_ins0", "opd0_x_ins0")),
        Coded("pad_mode", "pad_mode", int, PadMode),
        flag("rotate", "kernel_rotate"),
    )

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    pad_mode: PadMode = PadMode.CONSTANT
    rotate: bool = False

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.pad_mode, self.rotate)


PAD_VALUE = Tensor(
    "pad_value",
    "opd3",
    prec=lambda command: command.input.dtype.prec,
    sign=lambda command: command.input.dtype.signed,
    layout=Layout.COMPACT,
    immediate=True,
    optional=True,
)
"""Of the input's type; an immediate 0 is None."""

Product = Callable[[Array, tuple[int, slice]], Array]
"""Sums `[oc, rows * ow]` from columns `[depth, rows * ow]` of a batch and a range of rows."""


def convolve(x: Array, window: Window, output: Shape4, piece: int, multiply: Product, kind: np.dtype[Any]) -> Array:
    """`[n, oc, oh, ow]` from padded `x`; the products of one sum come as [ic / piece][kh * kw][piece]."""
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
            columns = _columns(x[image], window, (count, ow), first, piece)
            product = multiply(columns, (image, slice(first, first + count)))
            result[image, :, first : first + count] = product.reshape(oc, count, ow)
    return result


def _columns(x: Array, window: Window, size: Pair, first: int, piece: int) -> Array:
    taps, pieces = window.taps(), x.reshape(-1, piece, *x.shape[1:])
    if len(taps) == 1:
        return np.ascontiguousarray(window.shifted(x[None], taps[0], size, first)).reshape(x.shape[0], -1)
    columns = np.empty((len(pieces), len(taps), piece, *size), np.float32)
    for index, tap in enumerate(taps):
        columns[:, index] = window.shifted(pieces, tap, size, first)
    return columns.reshape(len(taps) * x.shape[0], -1)


def _chunks(weight: Array, limit: int) -> list[slice]:
    depth = weight.shape[1]
    if not weight.size:
        return [slice(0, depth)]
    magnitude = np.abs(weight.astype(np.int32))
    if int(magnitude.sum(axis=1, dtype=np.int64).max()) * limit <= _FLOAT32_EXACT:
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


def exact_matmul(left: Array, right: Array, limit: int) -> Array:
    """Integer `left @ right` as int32; `limit` is the largest magnitude in `right`."""
    return exact_product(left, limit)(right)


def exact_product(left: Array, limit: int) -> Callable[[Array], Array]:
    """Multiplies integers by `left`: every GEMM covers so few products that no partial sum can leave float32's."""
    chunks, floats = _chunks(left, limit), left.astype(np.float32)
    return lambda right: _multiply(floats, right.astype(np.float32, copy=False), chunks)
