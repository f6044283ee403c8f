"""Depthwise convolution, which is also the per-channel requantisation of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.bf16 import Accumulator, F32Array, products, widen
from tpuc_cv183x.isa.channels import (
    KERNEL_STRIDES,
    THIRD,
    THIRD_STRIDES,
    check_result,
    check_third,
    finish_channels,
    read_third,
    third_fields,
)
from tpuc_cv183x.isa.command import (
    ComputeInstruction,
    FieldReader,
    check_multiple,
    check_near,
    derived_fields,
    operand_fields,
    shape_fields,
    type_fields,
)
from tpuc_cv183x.isa.finish import ChannelBlock, PartialSum, bias_regions
from tpuc_cv183x.isa.types import Array, Operand, Pair, Scalar, Shape4, Source
from tpuc_cv183x.isa.windows import Pads, Window, pad_array, pad_fields, read_pad, read_window

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Depthwise(ComputeInstruction):
    """Each channel of `input` convolved with its own kernel; finish, `bias`, `block` and `pad_value` as in `Conv`.

    `weight`: ALIGNED as (1, c, kh, kw), or an immediate for all taps. With an immediate and a 1x1 kernel this is a
    requantisation per channel.
    """

    ignored = frozenset({*KERNEL_STRIDES, *THIRD_STRIDES, "opt_left_shift", "quan_m", "opd0_b_str", "res0_b_str"})

    result: Operand
    result_shape: Shape4
    input: Operand
    input_size: Pair
    """Height, width; N and C are the result's."""
    weight: Source
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    insert_last: Pair = (0, 0)
    pad_value: int = 0
    block: ChannelBlock | None = None
    bias: int | None = None
    bias_signed: bool = True
    shift: int = 0
    relu: bool = False

    def mnemonic(self) -> str:
        return "depthwise"

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.insert_last)

    @property
    def input_shape(self) -> Shape4:
        """Of the whole input."""
        return (*self.result_shape[:2], *self.input_size)

    @property
    def weight_shape(self) -> Shape4:
        """Of a weight tensor."""
        return (1, self.result_shape[1], *self.kernel)

    @property
    def _bias_is_signed(self) -> bool:
        return self.bias_signed if self.bias is not None else self.block is not None and self.block.has_bias

    def fields(self) -> dict[str, int]:
        channels = self.result_shape[1]
        any_signed = self.input.dtype.signed or self.weight.dtype.signed or self._bias_is_signed
        fields = {
            "tsk_typ": 1,
            "tsk_eu_typ": 2,
            "opt_relu": int(self.relu),
            "opt_right_shift": self.shift,
            "opt_shift_typ": int(any_signed),
            "opd_typ": int(self.is_float),
            "opd1_c": channels,
        }
        fields |= operand_fields("res0", self.result, self.result_shape)
        fields |= operand_fields("opd0", self.input, self.input_shape)
        if isinstance(self.weight, Scalar):
            fields |= type_fields("opd1", self.weight.dtype) | {"opt_opd1_const": 1, "opd1_addr": self.weight.bits}
        else:
            fields |= derived_fields(self.mnemonic(), "opd1", self.weight)
        fields |= shape_fields("res0", self.result_shape) | shape_fields("opd0", self.input_shape)
        fields |= self.window.fields() | pad_fields(self.pad_value, self.input.dtype)
        fields |= third_fields(self.block, self.bias, self.bias_signed, channels, self.input.dtype)
        return fields | {"opt_opd2_sign": 1}

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        shape, window = fields.shape("res0"), read_window(fields)
        source = fields.operand("opd0", fields.shape("opd0"))
        kind = fields.dtype("opd1")
        block, bias, bias_signed = read_third(fields)
        return cls(
            result=fields.operand("res0", shape),
            result_shape=shape,
            input=source,
            input_size=fields.shape("opd0")[2:],
            weight=Scalar(fields["opd1_addr"], kind)
            if fields["opt_opd1_const"]
            else Operand(fields.near("opd1"), kind),
            kernel=window.kernel,
            stride=window.stride,
            pads=window.pads,
            dilation=window.dilation,
            insert=window.insert,
            insert_last=window.insert_last,
            pad_value=read_pad(fields, source.dtype),
            block=block,
            bias=bias,
            bias_signed=bias_signed,
            shift=0 if block else fields["opt_right_shift"],
            relu=bool(fields["opt_relu"]),
        )

    def unused_operands(self) -> tuple[str, ...]:
        other = "opd0_ins_val" if self.is_float else "opd0_ins_fp"
        shift = () if self.block is None else ("opt_right_shift",)
        weight = ("opd1_n", "opd1_c", "short_opd1") if isinstance(self.weight, Scalar) else ("opd1_n",)
        return ("rsvd", other, *shift, *weight, *(THIRD if self.block is None and self.bias is None else ()))

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
            check_multiple(name, f"{what} n stride", operand.strides(shape)[0], 16)
        if isinstance(self.weight, Operand):
            check_near(name, "the weight", self.weight.address, self.result)

    def reads(self) -> Sequence[Region]:
        regions, channels = self.input.regions(self.input_shape), self.result_shape[1]
        if isinstance(self.weight, Operand):
            regions += self.weight.regions(self.weight_shape)
        if self.block is not None:
            regions.append(self.block.region(channels))
        if self.bias is not None:
            regions += bias_regions(self.bias, channels, self.input.dtype)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape)

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
