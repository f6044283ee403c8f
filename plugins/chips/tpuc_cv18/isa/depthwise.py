"""Depthwise convolution, also used for per-channel requantization of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Derived, Encoding, Ignored, When, flag

from tpuc_cv18.isa.bf16 import Accumulator, F32Array, products, widen
from tpuc_cv18.isa.channels import (
    KERNEL_STRIDES,
    THIRD_OPERAND,
    THIRD_STRIDES,
    check_result,
    check_third,
    finish_channels,
)
from tpuc_cv18.isa.codecs import FLOAT, Extents, Tensor, extents
from tpuc_cv18.isa.command import check_multiple, check_near
from tpuc_cv18.isa.finish import ChannelBlock, PartialSum, bias_regions
from tpuc_cv18.isa.types import Array, Operand, Pair, Scalar, Shape4, Source
from tpuc_cv18.isa.windows import WindowInstruction, pad_array

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Depthwise(WindowInstruction):
    """Convolve each channel of `input` with its own kernel; epilogue, `bias`, `block` and `pad_value` as in `Conv`.

    `weight` is ALIGNED (1, c, kh, kw), or an immediate for all taps. An immediate with a 1x1 kernel performs a
    per-channel requantization.
    """

    stem = "depthwise"
    encoding = Encoding(
        Constant(tsk_typ=1, tsk_eu_typ=2),
        FLOAT,
        extents("result_shape", "res0"),
        Tensor("result", "res0", layout=None, shape=lambda conv: conv.result_shape),
        extents("input_size", "opd0", "hw"),
        Extents("opd0", lambda conv: conv.result_shape[:2], "nc"),
        Tensor("input", "opd0", layout=None, shape=lambda conv: conv.input_shape),
        Tensor("weight", "opd1", immediate=True),
        Extents("opd1", lambda conv: conv.result_shape[1:2], "c"),
        When(lambda conv: isinstance(conv.weight, Scalar), Ignored("opd1_c", "short_opd1*")),
        WindowInstruction.window_encoding,
        WindowInstruction.dilation_encoding,
        THIRD_OPERAND,
        Constant(opt_opd2_sign=1),
        Derived("opt_shift_typ", lambda conv: conv.has_signs),
        flag("relu", "opt_relu"),
        Ignored("opd1_n", "opt_left_shift", "quan_m", "opd0_b_str", "res0_b_str", *KERNEL_STRIDES, *THIRD_STRIDES),
    )

    input_size: Pair
    """Height, width; N and C are those of the result."""
    weight: Source
    block: ChannelBlock | None = None
    bias: int | None = None
    bias_signed: bool = True
    shift: int = 0
    relu: bool = False

    @property
    def input_shape(self) -> Shape4:
        """Extents of the input."""
        return (*self.result_shape[:2], *self.input_size)

    @property
    def weight_shape(self) -> Shape4:
        """Extents of a weight tensor."""
        return (1, self.result_shape[1], *self.kernel)

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
        self.window.check(name, self.input_size, self.result_shape[2:])
        sources = (self.input.dtype, self.weight.dtype)
        check_result(name, self.result, self.relu, PartialSum.OFF, sources, self._bias_is_signed)
        check_third(name, self.result, self.block, self.bias, PartialSum.OFF)
        if self.result.dtype.planes > 1 or self.input.dtype.planes > 1:
            raise IllegalCommand(f"{name}: 16-bit integers; use 8 bits or bf16")
        if not self.weight.dtype.signed or (self.bias is not None and not self.bias_signed):
            raise IllegalCommand(f"{name}: weights and bias must be signed; use int8 weights and a signed bias")
        for what, operand, shape in (
            ("input", self.input, self.input_shape),
            ("result", self.result, self.result_shape),
        ):
            check_multiple(name, f"{what} n stride", operand.strides(shape, self.target)[0], 16)
        if self.block is not None and max(self.dilation) > 1 and not self.target.dilates_per_channel:
            raise IllegalCommand(
                f"{name}: {self.target.name} ignores the dilation when there is a block; insert zeros into the filter"
            )
        if isinstance(self.weight, Operand):
            check_near(name, "the weight", self.weight.address, self.result)

    def reads(self) -> Sequence[Region]:
        target, channels = self.target, self.result_shape[1]
        regions = self.input.regions(self.input_shape, target)
        if isinstance(self.weight, Operand):
            regions += self.weight.regions(self.weight_shape, target)
        if self.block is not None:
            regions.append(self.block.region(channels, target))
        if self.bias is not None:
            regions += bias_regions(self.bias, channels, self.input.dtype, target)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self.target)

    def execute(self, machine: Machine) -> None:
        dtype, channels = self.input.dtype, self.result_shape[1]
        padded = self.window.pad(machine.load(self.input, self.input_shape), pad_array(self.pad_value, dtype))
        weight = np.broadcast_to(machine.fetch(self.weight, self.weight_shape), self.weight_shape)
        sums = self._float_sums(padded, weight) if dtype.is_float else self._integer_sums(padded, weight)
        machine.store(self.result, self.result_shape, finish_channels(machine, sums, self, channels))

    def _integer_sums(self, padded: Array, weight: Array) -> Array:
        # Products and sums of float32 are exact while they stay below 2**24, and multiply faster than integers.
        kind = np.float32 if self.kernel[0] * self.kernel[1] < 256 else np.int32
        values, factors = padded.astype(kind), weight.astype(kind)
        sums = np.zeros(self.result_shape, kind)
        term = np.empty(self.result_shape, kind)
        for y, x in self.window.taps():
            np.multiply(
                self.window.shifted(values, (y, x), self.result_shape[2:]), factors[:, :, y, x, None, None], out=term
            )
            sums += term
        return sums.astype(np.int32, copy=False)

    def _float_sums(self, padded: Array, weight: Array) -> F32Array:
        values, factors = widen(padded), widen(weight)
        total = Accumulator(np.zeros(self.result_shape, np.float32))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for y, x in self.window.taps():
                seen = self.window.shifted(values, (y, x), self.result_shape[2:])
                total.add(products(seen, factors[:, :, y, x, None, None]))
        return total.total
