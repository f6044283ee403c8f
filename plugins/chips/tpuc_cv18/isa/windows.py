"""Encode the sliding windows of convolution and pooling, and accumulate bf16 in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Encoding, FieldCodec, Numbers
from tpuc.api.simulation import Pads, SlidingWindow

from tpuc_cv18.isa.bf16 import F32Array, multiply_ordered, widen
from tpuc_cv18.isa.codecs import PAD_VALUE, extents
from tpuc_cv18.isa.command import ComputeInstruction
from tpuc_cv18.isa.types import Array, DType, Operand, Pair, Scalar, Shape4


@dataclass(frozen=True)
class Window(SlidingWindow):
    """A sliding window. Each input row and column is followed by `insert` elements, the last one by `insert_last`."""

    def check(self, mnemonic: str, input_size: Pair, output_size: Pair) -> None:
        """Raise IllegalCommand unless the output size matches the padded input."""
        if min(self.kernel) < 1 or min(self.stride) < 1:
            raise IllegalCommand(f"{mnemonic}: kernel {self.kernel} stride {self.stride}: both must be at least 1")
        for name, have, want, stride, extent in self.axes(input_size, output_size):
            gives = (have - extent) // stride + 1
            if gives != want:
                raise IllegalCommand(
                    f"{mnemonic}: output {name} {want}, but {have} padded input elements give {gives}; correct the pads"
                )


@dataclass(frozen=True, kw_only=True)
class WindowInstruction(ComputeInstruction):
    """Attributes and encoding common to commands with a sliding window. `pad_value` fills the border and inserted
    elements.
    """

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


def convolve_ordered(x: Array, weight: Array, window: Window, output: Shape4, start: Array | None) -> F32Array:
    """Convolve bf16 patterns with float32 sums, accumulating each output in the order kh, kw, ic; continues from
    `start`.
    """
    n, oc, oh, ow = output
    factors, values = widen(weight), widen(x)
    result = np.empty((n, oc, oh, ow), np.float32)
    for image in range(n):
        columns = window.columns(values[image], (oh, ow), 0, values.shape[1])
        before = None if start is None else start[image].reshape(oc, -1)
        result[image] = multiply_ordered(factors, columns, before).reshape(oc, oh, ow)
    return result
