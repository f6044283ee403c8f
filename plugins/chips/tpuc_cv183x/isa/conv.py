"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.bf16 import flush
from tpuc_cv183x.isa.channels import (
    INPUT_STRIDES,
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
)
from tpuc_cv183x.isa.finish import ChannelBlock, PartialSum, bias_regions, load_sums, store_sums, sum_planes
from tpuc_cv183x.isa.types import Array, Layout, Operand, Pair, Shape4
from tpuc_cv183x.isa.windows import (
    Pads,
    Window,
    convolve,
    convolve_ordered,
    pad_array,
    pad_fields,
    read_pad,
    read_window,
)

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine

MAX_INPUT_CHANNELS = 4095 - 32
"""The vendor's model aborts beyond."""


@dataclass(frozen=True, kw_only=True)
class Conv(ComputeInstruction):
    """`result = convolution of input with weight`; `result_shape` is given, not computed.

    `weight` COMPACT as (1, oc, kh * kw, ic). Finish: with `block` requantisation per channel (bias in the block), else
    `saturate(relu((sum + bias) >> shift))`, half up; bf16 rounds once. `bias`: address of one value per channel in two
    planes (CHANNEL layout): int16 or, beside bf16, float32. `pad_value`, also of inserted elements: 0 for bf16. Weight,
    bias and block start in the result's pair of lanes and run over the lanes as the result's channels do.
    `double`: two input channels per cycle (int8; even ic >= 4; even input and weight addresses), same values.
    """

    ignored = frozenset({*INPUT_STRIDES, *KERNEL_STRIDES, *THIRD_STRIDES, "opt_left_shift", "quan_m", "tsk_eu_typ"})

    result: Operand
    result_shape: Shape4
    input: Operand
    input_shape: tuple[int, int, int]
    """Channels, height, width; N is the result's."""
    weight: Operand
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
    partial: PartialSum = PartialSum.OFF
    double: bool = False

    def mnemonic(self) -> str:
        return "conv"

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.insert_last)

    @property
    def _dims(self) -> Shape4:
        return (self.result_shape[0], *self.input_shape)

    @property
    def weight_shape(self) -> Shape4:
        """Of the weights in local memory."""
        return (1, self.result_shape[1], self.kernel[0] * self.kernel[1], self.input_shape[0])

    @property
    def _planes(self) -> int:
        return sum_planes(self.result.dtype) if self.partial is not PartialSum.OFF else 1

    @property
    def _bias_is_signed(self) -> bool:
        return self.bias_signed if self.bias is not None else self.block is not None and self.block.has_bias

    def fields(self) -> dict[str, int]:
        name, oc = self.mnemonic(), self.result_shape[1]
        any_signed = self.input.dtype.signed or self.weight.dtype.signed or self._bias_is_signed
        fields = {
            "tsk_typ": 0,
            "opt_relu": int(self.relu),
            "opt_right_shift": self.shift,
            "opt_shift_typ": int(any_signed),
            "ps32_md": int(self.partial),
            "double_conv": int(self.double),
            "opd_typ": int(self.is_float),
            "opd1_n": self.input_shape[0],
            "opd1_c": oc,
        }
        fields |= operand_fields("res0", self.result, self.result_shape, self._planes)
        fields |= derived_fields(name, "opd0", self.input) | derived_fields(name, "opd1", self.weight, Layout.COMPACT)
        fields |= shape_fields("res0", self.result_shape) | shape_fields("opd0", self._dims) | self.window.fields()
        fields |= pad_fields(self.pad_value, self.input.dtype)
        return fields | third_fields(self.block, self.bias, self.bias_signed, oc, self.input.dtype)

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        shape, window, partial = fields.shape("res0"), read_window(fields), PartialSum(fields["ps32_md"])
        result = fields.operand("res0", shape, 2 if partial else 1)
        source = Operand(fields["opd0_addr"], fields.dtype("opd0"))
        block, bias, bias_signed = read_third(fields)
        return cls(
            result=result,
            result_shape=shape,
            input=source,
            input_shape=fields.shape("opd0")[1:],
            weight=Operand(fields.near("opd1"), fields.dtype("opd1"), Layout.COMPACT),
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
            partial=partial,
            double=bool(fields["double_conv"]),
        )

    def unused_operands(self) -> tuple[str, ...]:
        planes = () if self.partial else ("res0_b_str",)
        other = "opd0_ins_val" if self.is_float else "opd0_ins_fp"
        shift = () if self.block is None and not self.partial.writes else ("opt_right_shift",)
        return ("rsvd", other, *planes, *shift, *(THIRD if self.block is None and self.bias is None else ()))

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
        check_multiple(name, "result n stride", self.result.strides(self.result_shape)[0], 16)
        if not self.double:
            return
        ic = self.input_shape[0]
        if self.is_float or ic < 4 or ic % 2 or self.input.address % 2 or self.weight.address % 2:
            raise IllegalCommand(
                f"{name}: double needs int8, an even number of input channels from 4 on and even addresses; here {ic} "
                f"channels of {self.input.dtype}, input {self.input}, weight {self.weight}; leave it out"
            )

    def reads(self) -> Sequence[Region]:
        regions = self.input.regions(self._dims) + self.weight.regions(self.weight_shape)
        oc = self.result_shape[1]
        if self.block is not None:
            regions.append(self.block.region(oc))
        if self.bias is not None:
            regions += bias_regions(self.bias, oc, self.input.dtype)
        if self.partial.reads:
            regions += self.result.regions(self.result_shape, self._planes)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self._planes if self.partial.writes else 1)

    def execute(self, machine: Machine) -> None:
        dtype, oc = self.input.dtype, self.result_shape[1]
        padded = self.window.pad(machine.load(self.input, self._dims), pad_array(self.pad_value, dtype))
        weight = machine.load(self.weight, self.weight_shape).reshape(oc, -1)
        before = load_sums(machine, self.result, self.result_shape) if self.partial.reads else None
        if dtype.is_float:
            start = None if before is None else flush(before)
            sums: Array = convolve_ordered(padded, weight, self.window, self.result_shape, start)
        else:
            limit = 128 if dtype.signed else 255
            sums = convolve(padded, weight, self.window, self.result_shape, limit)
            if before is not None:
                sums += before
            if self.shift and not (dtype.signed or self.weight.dtype.signed or self._bias_is_signed):
                sums = sums.view(np.uint32)
        if self.partial.writes:
            store_sums(machine, self.result, self.result_shape, sums)
        else:
            machine.store(self.result, self.result_shape, finish_channels(machine, sums, self, oc))
