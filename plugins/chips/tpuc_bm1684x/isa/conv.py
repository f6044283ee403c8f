"""Convolution (CONV)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa.command import ComputeInstruction, FieldReader, layout_fields, shape_fields, source_fields
from tpuc_bm1684x.isa.elementwise import flush
from tpuc_bm1684x.isa.sums import aligned_matmul, alternating_matmul
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Pair, Scalar, Shape4, Source, dtype_of
from tpuc_bm1684x.isa.windows import (
    PadMode,
    Pads,
    Product,
    Window,
    convolve,
    exact_product,
    pad_values,
    read_window,
)

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class ConvOp(enum.IntEnum):
    """Sub-opcodes of CONV."""

    NORMAL = 0
    """int8 to int32, or floats"""
    REQUANTISE = 1
    """wrq: int8 to int8 by a common right shift"""
    REQUANTISE_RELU = 2
    """wrqrelu: the same, clamped to 0..255"""


@dataclass(frozen=True, kw_only=True)
class Conv(ComputeInstruction):
    """`result = convolution of input with weight` (CONV); `result_shape` is given, not computed.

    `weight` per output channel: [ic / P][kh][kw][P] with P = 64, 32, 1 input channels for int8, f16/bf16, f32, zero
    padded, compact; or an immediate. int8 NORMAL: int32 result, taps minus `kernel_zero_point` (immediate, or an int8
    table per output channel). Floats: plus f32 `bias` (1, oc, 1, 1) compact. REQUANTISE: sat((acc + int16 bias) >>
    shift), half up. `pad_value`: an immediate, or a compact (1, ic, 1, 2) table of the pad value and the inserted
    value of each channel. `accumulate` adds the old result, which is f32 for float inputs, whatever `result` is.
    `insert`: zeros between input elements. `rotate`: taps by 180 degrees.
    """

    table_name = "sCONV"
    harmless = frozenset({"opd0_n_str", "opd0_c_str", "opd0_h_str", "opd0_w_str", "res1_addr", "opd2_sign"})

    operation: ConvOp = ConvOp.NORMAL
    result: Operand
    result_shape: Shape4
    input: Operand
    input_shape: tuple[int, int, int]
    """Channels, height, width; N is the result's."""
    weight: Source
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    pad_mode: PadMode = PadMode.CONSTANT
    rotate: bool = False
    bias: Operand | None = None
    kernel_zero_point: Source | None = None
    pad_value: Source | None = None
    shift: int = 0
    accumulate: bool = False

    def mnemonic(self) -> str:
        return f"conv.{self.operation.name.lower()}"

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.pad_mode, self.rotate)

    @property
    def _fused(self) -> bool:
        return self.operation is not ConvOp.NORMAL

    @property
    def _integer(self) -> bool:
        return not self.input.dtype.is_float

    @property
    def packing(self) -> int:
        """Input channels in one weight piece."""
        return {1: 64, 2: 32, 4: 1}[self.input.dtype.bytes]

    def fields(self) -> dict[str, int]:
        third = self.kernel_zero_point if self._integer and not self._fused else self.bias
        fourth = Scalar(self.shift, DType.INT32) if self._fused else self.pad_value
        signs = self._integer
        fields = {
            "tsk_eu_typ": int(self.operation),
            "res0_addr": self.result.address,
            "res0_prec": self.result.dtype.prec,
            "res_add": int(self.accumulate),
            "opd0_addr": self.input.address,
            "opd0_prec": self.input.dtype.prec,
            "opd0_sign": int(signs and self.input.dtype.signed),
            "opd1_sign": int(signs and self.weight.dtype.signed),
            "opd2_sign": int(signs and (third is None or third.dtype.signed)),
        }
        fields |= shape_fields("res0", self.result_shape) | shape_fields("opd0", self.input_shape, "chw")
        fields |= layout_fields("opd0", self.input) | self.window.fields()
        fields |= source_fields("opd1", self.weight)
        return fields | source_fields("opd2", third) | source_fields("opd3", fourth)

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = ConvOp(fields["tsk_eu_typ"])
        kind = dtype_of(fields["opd0_prec"], fields["opd0_sign"])
        fused, integer = operation is not ConvOp.NORMAL, not kind.is_float
        bias: Operand | None = None
        zero_point: Source | None = None
        if integer and not fused:
            zero_point = fields.source("opd2", 0, fields["opd2_sign"], Layout.COMPACT)
            if zero_point == Scalar(0, DType.INT8):
                zero_point = None
        elif not fields["opd2_const"]:
            bias = fields.plain("opd2", 3 if integer else 2, 1, Layout.COMPACT)
        pad_value: Source | None = None
        if not fused:
            pad_value = fields.source("opd3", kind.prec, fields["opd0_sign"], Layout.COMPACT)
            if isinstance(pad_value, Scalar) and not pad_value.bits:
                pad_value = None
        window = read_window(fields)
        result_sign = integer and operation is not ConvOp.REQUANTISE_RELU
        return cls(
            operation=operation,
            result=fields.plain("res0", fields["res0_prec"], result_sign),
            result_shape=fields.shape("res0"),
            input=fields.operand("opd0", fields["opd0_prec"], fields["opd0_sign"]),
            input_shape=(fields["opd0_c"], fields["opd0_h"], fields["opd0_w"]),
            weight=fields.source("opd1", kind.prec, fields["opd1_sign"], Layout.COMPACT),
            kernel=window.kernel,
            stride=window.stride,
            pads=window.pads,
            dilation=window.dilation,
            insert=window.insert,
            pad_mode=window.pad_mode,
            rotate=window.rotate,
            bias=bias,
            kernel_zero_point=zero_point,
            pad_value=pad_value,
            shift=fields["opd3_addr"] & 0xFF if fused else 0,
            accumulate=bool(fields["res_add"]),
        )

    def check(self) -> None:
        super().check()
        _, height, width = self.input_shape
        self.window.check(self.mnemonic(), (height, width), self.result_shape[2:])
        source, result = self.input.dtype, self.result.dtype
        wanted = (DType.INT32,) if self._integer else (source, DType.F32)
        if self._fused:
            wanted = (DType.INT8, DType.UINT8)
        if (source.bytes > 1 and self._integer) or result not in wanted:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use {' or '.join(map(str, wanted))}")
        if self._fused and self.accumulate:
            raise IllegalCommand(f"{self.mnemonic()}: it cannot add to an old result; use NORMAL")

    # -- memory ------------------------------------------------------------------------------------------------------

    def _input_dims(self) -> Shape4:
        return (self.result_shape[0], *self.input_shape)

    def _weight_dims(self) -> Shape4:
        groups = -(-self.input_shape[0] // self.packing)
        return (1, self.result_shape[1], groups * self.kernel[0] * self.kernel[1], self.packing)

    def reads(self) -> Sequence[Region]:
        regions = [self.input.region(self._input_dims())]
        channels = (1, self.result_shape[1], 1, 1)
        if isinstance(self.weight, Operand):
            regions.append(self.weight.region(self._weight_dims()))
        if self.bias is not None:
            regions.append(self.bias.region(channels))
        if isinstance(self.kernel_zero_point, Operand):
            regions.append(self.kernel_zero_point.region(channels))
        if isinstance(self.pad_value, Operand):
            regions.append(self.pad_value.region((1, self.input_shape[0], 1, 2)))
        if self.accumulate:
            regions.append(self._old_result().region(self.result_shape))
        return regions

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.result_shape)]

    # -- meaning -----------------------------------------------------------------------------------------------------

    def execute(self, machine: Machine) -> None:
        pads = pad_values(machine, self.pad_value, self.input_shape[0], self.input.dtype)
        x = self.window.pad(machine.load(self.input, self._input_dims()), *pads)
        weight, piece = self._weights(machine)
        if self._integer:
            product = exact_product(weight, 128 if self.input.dtype.signed else 255)
            total = convolve(
                x, self.window, self.result_shape, piece, lambda columns, _: product(columns), np.dtype(np.int32)
            )
            value = self._finish(machine, total)
        else:
            if x.shape[1] % piece:
                x = np.pad(x, ((0, 0), (0, -x.shape[1] % piece), (0, 0), (0, 0)))
            product = self._float_product(machine, weight.astype(np.float32), piece)
            value = convolve(x, self.window, self.result_shape, piece, product, self.result.dtype.numpy)
        machine.store(self.result, self.result_shape, value)

    def _weights(self, machine: Machine) -> tuple[Array, int]:
        """`[oc, (ic / piece) * (kh * kw) * piece]`, and the channels in a piece."""
        (kh, kw), ic, oc = self.kernel, self.input_shape[0], self.result_shape[1]
        groups, piece = -(-ic // self.packing), min(ic, self.packing)
        if isinstance(self.weight, Scalar):
            weight = np.broadcast_to(self.weight.value(), (oc, groups, kh * kw, self.packing)).copy()
        else:
            weight = machine.load(self.weight, self._weight_dims()).reshape(oc, groups, kh * kw, self.packing)
        if self._integer:
            weight, piece = weight.swapaxes(1, 2).reshape(oc, 1, kh * kw, -1)[..., :ic], ic
        elif ic % piece:
            weight = np.where(np.arange(groups * piece).reshape(groups, 1, piece) < ic, weight, weight.dtype.type(0))
        weight = weight[..., :piece]
        if self.rotate:
            weight = weight[:, :, ::-1]
        if self.kernel_zero_point is not None:
            point = machine.fetch(self.kernel_zero_point, (1, oc, 1, 1)).reshape(-1, 1, 1, 1)
            weight = weight.astype(np.int16) - point.astype(np.int16)
        return weight.reshape(oc, -1), piece

    def _float_product(self, machine: Machine, weight: Array, piece: int) -> Product:
        bias = machine.load(self.bias, (1, weight.shape[0], 1, 1)).reshape(-1, 1) if self.bias is not None else None
        old = machine.load(self._old_result(), self.result_shape).copy() if self.accumulate else None

        def product(columns: Array, place: tuple[int, slice]) -> Array:
            before = None if old is None else old[place[0], :, place[1]].reshape(len(weight), -1)
            if self.packing == 1:
                return alternating_matmul(weight, columns, bias, before)
            start = before if bias is None else np.broadcast_to(bias, (len(weight), columns.shape[1]))
            if bias is not None and before is not None:
                with np.errstate(all="ignore"):
                    start = flush(before) + flush(bias)
            return aligned_matmul(weight, columns, start, self.result.dtype.numpy, piece)

        return product

    def _old_result(self) -> Operand:
        return self.result if self._integer else Operand(self.result.address, DType.F32)

    def _finish(self, machine: Machine, total: Array) -> Array:
        channels = (1, self.result_shape[1], 1, 1)
        result = self.result.dtype.numpy
        if self._fused:
            value = total.astype(np.int64)
            if self.bias is not None:
                value += machine.load(self.bias, channels)
            return saturate(shift_right(value, np.int64(self.shift), Rounding.HALF_UP), result)
        return total + machine.load(self.result, self.result_shape) if self.accumulate else total
