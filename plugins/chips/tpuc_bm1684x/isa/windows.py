"""Encode the sliding windows of convolution and pooling, and their padding modes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Coded, Encoding, Numbers, flag
from tpuc.api.simulation import Pads, SlidingWindow

from tpuc_bm1684x.isa.codecs import Tensor, extents
from tpuc_bm1684x.isa.fused import Requantizing
from tpuc_bm1684x.isa.types import Array, DType, Layout, Pair, Scalar, Source

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class PadMode(enum.IntEnum):
    """Source of the values beyond the border."""

    CONSTANT = 0
    REFLECT = 1
    EDGE = 2
    WRAP = 3


@dataclass(frozen=True)
class Window(SlidingWindow):
    """Geometry of a sliding window; `insert` zeros (or table values) are placed between input elements."""

    pad_mode: PadMode = PadMode.CONSTANT
    rotate: bool = False

    def check(self, mnemonic: str, input_size: Pair, output_size: Pair) -> None:
        """Raise IllegalCommand for windows that leave the padded input."""
        if min(self.kernel) < 1 or min(self.stride) < 1:
            raise IllegalCommand(f"{mnemonic}: kernel {self.kernel} stride {self.stride}: both must be at least 1")
        for name, have, want, stride, extent in self.axes(input_size, output_size):
            needed = (want - 1) * stride + extent
            if needed > have:
                raise IllegalCommand(
                    f"{mnemonic}: output {name} {want} needs {needed} padded input elements, there are {have}; "
                    "reduce it or pad more"
                )

    def pad(self, x: Array, value: Array, between: Array | None = None) -> Array:
        if self.pad_mode is PadMode.CONSTANT or not any(self.pads):
            return super().pad(x, value, between)
        inner = SlidingWindow(self.kernel, insert=self.insert).pad(x, value if between is None else between)
        top, left, bottom, right = self.pads
        widths = ((0, 0), (0, 0), (top, bottom), (left, right))
        match self.pad_mode:
            case PadMode.REFLECT:
                return np.pad(inner, widths, mode="reflect")
            case PadMode.EDGE:
                return np.pad(inner, widths, mode="edge")
            case _:
                return np.pad(inner, widths, mode="wrap")


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
class WindowInstruction(Requantizing):
    """Attributes and encoding common to commands with a sliding window."""

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
        geometry = (self.kernel, self.stride, self.pads, self.dilation, self.insert)
        return Window(*geometry, pad_mode=self.pad_mode, rotate=self.rotate)


PAD_VALUE = Tensor(
    "pad_value",
    "opd3",
    prec=lambda command: command.input.dtype.prec,
    sign=lambda command: command.input.dtype.signed,
    layout=Layout.COMPACT,
    immediate=True,
    optional=True,
)
"""Codec of the pad value, in the input's type; the immediate 0 decodes as None."""
