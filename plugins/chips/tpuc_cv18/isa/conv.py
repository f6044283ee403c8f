"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Coded, Constant, Derived, Encoding, Ignored, When, flag
from tpuc.api.simulation import convolve, exact_product

from tpuc_cv18.isa.bf16 import flush
from tpuc_cv18.isa.channels import (
    INPUT_STRIDES,
    KERNEL_STRIDES,
    THIRD_OPERAND,
    THIRD_STRIDES,
    check_result,
    check_third,
    finish_channels,
)
from tpuc_cv18.isa.codecs import FLOAT, Extents, Tensor, extents
from tpuc_cv18.isa.command import check_multiple, check_near
from tpuc_cv18.isa.finish import ChannelBlock, PartialSum, bias_regions, load_sums, store_sums, sum_planes
from tpuc_cv18.isa.types import Array, Layout, Operand, Shape4
from tpuc_cv18.isa.windows import WindowInstruction, convolve_ordered, pad_array

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

MAX_INPUT_CHANNELS = 4095 - 32
"""The vendor's model aborts beyond this."""


@dataclass(frozen=True, kw_only=True)
class Conv(WindowInstruction):
    """`result = convolution of input with weight`; `result_shape` is given, not computed.

    `weight` is COMPACT (1, oc, kh * kw, ic). Epilogue: with `block`, per-channel requantization (the bias is in the
    block); else `saturate(relu((sum + bias) >> shift))`, half up; bf16 rounds once. `bias` is the address of one value
    per channel in two planes (CHANNEL layout): int16, or float32 for bf16. `pad_value` also fills inserted elements; it
    is 0 for bf16. Weight, bias and block start in the result's pair of lanes and are distributed over the lanes like
    the result's channels. `double` processes two input channels per cycle with the same values (int8; even ic >= 4;
    even input and weight addresses).
    """

    stem = "conv"
    encoding = Encoding(
        Constant(tsk_typ=0),
        FLOAT,
        Coded("partial", "ps32_md", int, PartialSum),
        Tensor("input", "opd0"),
        extents("input_shape", "opd0", "chw"),
        Extents("opd0", lambda conv: conv.result_shape[:1], "n"),
        Tensor(
            "weight",
            "opd1",
            layout=Layout.COMPACT,
        ),
        Extents("opd1", lambda conv: (conv.input_shape[0], conv.result_shape[1]), "nc"),
        extents("result_shape", "res0"),
        Tensor("result", "res0", layout=None, shape=lambda conv: conv.result_shape, planes=lambda conv: conv.partial),
        WindowInstruction.window_encoding,
        WindowInstruction.dilation_encoding,
        THIRD_OPERAND,
        Derived("opt_shift_typ", lambda conv: conv.has_signs),
        flag("relu", "opt_relu"),
        flag("double", "double_conv"),
        When(lambda conv: not conv.partial, Ignored("res0_b_str")),
        When(lambda conv: conv.partial.writes, Ignored("opt_right_shift")),
        Ignored("opt_left_shift", "quan_m", "tsk_eu_typ", *INPUT_STRIDES, *KERNEL_STRIDES, *THIRD_STRIDES),
    )

    input_shape: tuple[int, int, int]
    """Channels, height, width; the batch size is that of the result."""
    weight: Operand
    block: ChannelBlock | None = None
    bias: int | None = None
    bias_signed: bool = True
    shift: int = 0
    relu: bool = False
    partial: PartialSum = PartialSum.OFF
    double: bool = False

    @property
    def _dims(self) -> Shape4:
        return (self.result_shape[0], *self.input_shape)

    @property
    def weight_shape(self) -> Shape4:
        """Extents of the weights in local memory."""
        return (1, self.result_shape[1], self.kernel[0] * self.kernel[1], self.input_shape[0])

    @property
    def _planes(self) -> int:
        return sum_planes(self.result.dtype) if self.partial is not PartialSum.OFF else 1

    @property
    def has_signs(self) -> bool:
        """True when an operand is signed."""
        return self.input.dtype.signed or self.weight.dtype.signed or self._bias_is_signed

    @property
    def _bias_is_signed(self) -> bool:
        return self.bias_signed if self.bias is not None else self.block is not None and self.block.has_bias

    def check(self) -> None:
        super().check()
        name = self.mnemonic()
        self.window.check(name, self.input_shape[1:], self.result_shape[2:])
        sources = (self.input.dtype, self.weight.dtype)
        check_result(name, self.result, self.relu, self.partial, sources, self._bias_is_signed)
        check_third(name, self.result, self.block, self.bias, self.partial)
        check_near(name, "the weight", self.weight.address, self.result)
        if self.input_shape[0] > MAX_INPUT_CHANNELS:
            raise IllegalCommand(f"{name}: at most {MAX_INPUT_CHANNELS} input channels, here {self.input_shape[0]}")
        if self.is_float and self.pad_value:
            raise IllegalCommand(
                f"{name}: bf16 pads with 0 only, because the vendor's model misreads other values; pad before"
            )
        check_multiple(name, "input address", self.input.offset, 16)
        check_multiple(name, "result address", self.result.offset, 16)
        check_multiple(name, "result n stride", self.result.strides(self.result_shape, self.target)[0], 16)
        if not self.double:
            return
        ic = self.input_shape[0]
        if self.is_float or ic < 4 or ic % 2 or self.input.address % 2 or self.weight.address % 2:
            raise IllegalCommand(
                f"{name}: double needs int8, an even number of input channels from 4 on and even addresses; here {ic} "
                f"channels of {self.input.dtype}, input {self.input}, weight {self.weight}; leave it out"
            )

    def reads(self) -> Sequence[Region]:
        target, oc = self.target, self.result_shape[1]
        regions = self.input.regions(self._dims, target) + self.weight.regions(self.weight_shape, target)
        if self.block is not None:
            regions.append(self.block.region(oc, target))
        if self.bias is not None:
            regions += bias_regions(self.bias, oc, self.input.dtype, target)
        if self.partial.reads:
            regions += self.result.regions(self.result_shape, target, self._planes)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self.target, self._planes if self.partial.writes else 1)

    def execute(self, machine: Machine) -> None:
        dtype, oc = self.input.dtype, self.result_shape[1]
        padded = self.window.pad(machine.load(self.input, self._dims), pad_array(self.pad_value, dtype))
        weight = machine.load(self.weight, self.weight_shape).reshape(oc, -1)
        before = load_sums(machine, self.result, self.result_shape) if self.partial.reads else None
        if dtype.is_float:
            start = None if before is None else flush(before)
            sums: Array = convolve_ordered(padded, weight, self.window, self.result_shape, start)
        else:
            product = exact_product(weight, 128 if dtype.signed else 255)
            channels, kind = self.input_shape[0], np.dtype(np.int32)
            sums = convolve(padded, self.window, self.result_shape, channels, lambda columns, _: product(columns), kind)
            if before is not None:
                sums += before
            if self.shift and not self.has_signs:
                sums = sums.view(np.uint32)
        if self.partial.writes:
            store_sums(machine, self.result, self.result_shape, sums)
        else:
            machine.store(self.result, self.result_shape, finish_channels(machine, sums, self, oc))
