"""Convolution (CONV)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Coded, Constant, Derived, Encoding, Ignored, When, flag
from tpuc.api.simulation import Product, convolve, exact_product
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa import fused
from tpuc_bm1684x.isa.codecs import IntegerSign, Tensor, extents, operation, states_operands, uses_registers
from tpuc_bm1684x.isa.command import KERNEL_POINT
from tpuc_bm1684x.isa.elementwise import flush
from tpuc_bm1684x.isa.fused import Fusion
from tpuc_bm1684x.isa.sums import aligned_matmul, alternating_matmul
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Scalar, Shape4, Source, regions_of
from tpuc_bm1684x.isa.windows import PAD_VALUE, WindowInstruction, pad_values

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class ConvOp(enum.IntEnum):
    """Sub-opcodes of CONV."""

    NORMAL = 0
    """int8 to int32, or floats"""
    REQUANTIZE = 1
    """wrq: int8 to int8 by a common right shift"""
    REQUANTIZE_RELU = 2
    """wrqrelu: the same, clamped to 0..255"""
    REQUANTISE, REQUANTISE_RELU = 1, 2
    """Names until 0.3, which timing tools of others still state."""


def _input_prec(conv: Conv) -> int:
    return conv.input.dtype.prec


def _bias_prec(conv: Conv) -> int:
    return (DType.INT16 if conv.is_integer else DType.F32).prec


_SECOND_OPERAND = When(
    lambda conv: conv.is_integer and not conv.is_fused,
    Constant(opd2_sign=1),
    Tensor("kernel_zero_point", "opd2", prec=0, layout=Layout.COMPACT, immediate=True, optional=True),
    otherwise=[
        Derived("opd2_sign", lambda conv: conv.is_integer),
        Tensor("bias", "opd2", prec=_bias_prec, sign=1, layout=Layout.COMPACT, optional=True),
    ],
)


@dataclass(frozen=True, kw_only=True)
class Conv(WindowInstruction):
    """`result = convolution of input with weight` (CONV); `result_shape` is given, not computed.

    `weight` per output channel: [ic / P][kh][kw][P] with P = 64, 32, 1 input channels for int8, f16/bf16, f32, zero
    padded, compact; or an immediate. int8 NORMAL: int32 result; `kernel_zero_point` (immediate, or an int8 table per
    output channel) is subtracted from the weights. Floats: plus f32 `bias` (1, oc, 1, 1) compact. REQUANTIZE: sat((acc
    + int16 bias) >> shift), half up. `pad_value`: an immediate, or a compact (1, ic, 1, 2) table of the pad value and
    the inserted value of each channel. `requantizes`: sums of integers, with the bias, to bytes by registers and
    `table`. `accumulate` adds the old result, which is f32 for float inputs, whatever `result` is. `insert`: zeros
    between input elements. `rotate`: rotates the kernel by 180 degrees.
    """

    table_name = "sCONV"
    stem = "conv"
    encoding = Encoding(
        operation(ConvOp),
        Tensor("input", "opd0", layout=None, float_sign=0),
        extents("input_shape", "opd0", "chw"),
        Tensor("result", "res0", sign=lambda conv: conv.operation is not ConvOp.REQUANTIZE_RELU),
        extents("result_shape", "res0"),
        Tensor("weight", "opd1", prec=_input_prec, layout=Layout.COMPACT, immediate=True, float_sign=0),
        WindowInstruction.window_encoding,
        flag("accumulate", "res_add"),
        When(states_operands, Derived("opd1_prec", lambda conv: conv.weight.dtype.prec), IntegerSign()),
        When(
            uses_registers,
            Constant(opd4_const=1, opd2_sign=1),
            Fusion(states_constant=True),
            Tensor("bias", "opd2", prec=DType.INT32.prec, sign=1, layout=Layout.COMPACT, optional=True),
            otherwise=[_SECOND_OPERAND],
        ),
        When(
            lambda conv: conv.is_fused,
            Constant(opd3_const=1),
            Coded("shift", "opd3_addr", int, int, width=8),
            otherwise=[PAD_VALUE],
        ),
        Ignored("opd0_n_str", "opd0_c_str", "opd0_h_str", "opd0_w_str", "res1_addr", "opd2_sign"),
    )

    operation: ConvOp = ConvOp.NORMAL
    result: Operand
    result_shape: Shape4
    input: Operand
    input_shape: tuple[int, int, int]
    """Channels, height, width; the batch size is that of the result."""
    weight: Source
    bias: Operand | None = None
    kernel_zero_point: Source | None = None
    pad_value: Source | None = None
    shift: int = 0
    accumulate: bool = False

    @property
    def is_fused(self) -> bool:
        """True when it requantizes its result."""
        return self.operation is not ConvOp.NORMAL

    @property
    def is_integer(self) -> bool:
        """True when it multiplies integers."""
        return not self.input.dtype.is_float

    @property
    def channels(self) -> int:
        return self.result_shape[1]

    @property
    def reads_kernel_point(self) -> bool:
        return uses_registers(self)

    @property
    def packing(self) -> int:
        """Input channels per weight piece."""
        return self.target.packing[self.input.dtype.bytes]

    def check(self) -> None:
        super().check()
        _, height, width = self.input_shape
        self.window.check(self.mnemonic(), (height, width), self.result_shape[2:])
        source, result = self.input.dtype, self.result.dtype
        wanted = (DType.INT32,) if self.is_integer else (source, DType.F32)
        if self.is_fused:
            wanted = (DType.INT8, DType.UINT8)
        if self.requantizes:
            fused.check(self.mnemonic(), self.target, result)
            wanted = (result,)
        if (source.bytes > 1 and self.is_integer) or result not in wanted:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use {' or '.join(map(str, wanted))}")
        if uses_registers(self) and self.kernel_zero_point is not None:
            raise IllegalCommand(f"{self.mnemonic()}: the filter's zero point is in a register here; write it there")
        if (self.is_fused or self.requantizes) and self.accumulate:
            raise IllegalCommand(f"{self.mnemonic()}: it cannot add to an old result; use NORMAL")

    # -- memory ------------------------------------------------------------------------------------------------------

    def _input_dims(self) -> Shape4:
        return (self.result_shape[0], *self.input_shape)

    def _weight_dims(self) -> Shape4:
        groups = -(-self.input_shape[0] // self.packing)
        return (1, self.result_shape[1], groups * self.kernel[0] * self.kernel[1], self.packing)

    def reads(self) -> Sequence[Region]:
        channels = (1, self.result_shape[1], 1, 1)
        return fused.registers_read(self) + regions_of(
            self.target,
            (self.input, self._input_dims()),
            (self.weight, self._weight_dims()),
            (self.bias, channels),
            (self.kernel_zero_point, channels),
            (self.pad_value, (1, self.input_shape[0], 1, 2)),
            (self._old_result() if self.accumulate else None, self.result_shape),
        )

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.result_shape, self.target)]

    # -- meaning -----------------------------------------------------------------------------------------------------

    def execute(self, machine: Machine) -> None:
        pads = pad_values(machine, self.pad_value, self.input_shape[0], self.input.dtype)
        x = self.window.pad(machine.load(self.input, self._input_dims()), *pads)
        weight, piece = self._weights(machine)
        if self.is_integer:
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
        """The weights `[oc, (ic / piece) * (kh * kw) * piece]`, and the number of channels in a piece."""
        (kh, kw), ic, oc = self.kernel, self.input_shape[0], self.result_shape[1]
        groups, piece = -(-ic // self.packing), min(ic, self.packing)
        if isinstance(self.weight, Scalar):
            weight = np.broadcast_to(self.weight.value(), (oc, groups, kh * kw, self.packing)).copy()
        else:
            weight = machine.load(self.weight, self._weight_dims()).reshape(oc, groups, kh * kw, self.packing)
        if self.is_integer:
            weight, piece = weight.swapaxes(1, 2).reshape(oc, 1, kh * kw, -1)[..., :ic], ic
        elif ic % piece:
            weight = np.where(np.arange(groups * piece).reshape(groups, 1, piece) < ic, weight, weight.dtype.type(0))
        weight = weight[..., :piece]
        if self.rotate:
            weight = weight[:, :, ::-1]
        if uses_registers(self):
            weight = weight.astype(np.int16) - np.int16(machine.register(KERNEL_POINT))
        elif self.kernel_zero_point is not None:
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
        return self.result if self.is_integer else Operand(self.result.address, DType.F32)

    def _finish(self, machine: Machine, total: Array) -> Array:
        channels = (1, self.result_shape[1], 1, 1)
        result = self.result.dtype.numpy
        if self.is_fused:
            value = total.astype(np.int64)
            if self.bias is not None:
                value += machine.load(self.bias, channels)
            return saturate(shift_right(value, np.int64(self.shift), Rounding.HALF_UP), result)
        if self.bias is not None:
            total = total + machine.load(self.bias, channels)
        if self.requantizes:
            return fused.fused(machine, self, total, self.result.dtype)
        return total + machine.load(self.result, self.result_shape) if self.accumulate else total
