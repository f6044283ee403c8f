"""Depthwise convolution and pooling (PorD)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa.command import ComputeInstruction, FieldReader, shape_fields, source_fields
from tpuc_bm1684x.isa.elementwise import canonical, flush
from tpuc_bm1684x.isa.sums import alternating_sum, without_denormals
from tpuc_bm1684x.isa.types import (
    Array,
    DType,
    Layout,
    Operand,
    Pair,
    Scalar,
    Shape4,
    Source,
    dtype_of,
    rounding_code,
    rounding_of,
    signed,
)
from tpuc_bm1684x.isa.windows import PadMode, Pads, Window, pad_values, read_window

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class PoolOp(enum.IntEnum):
    """Sub-opcodes of PorD."""

    DEPTHWISE = 0
    AVERAGE = 1
    DEPTHWISE_RELU = 2
    MAX = 4
    ROI_DEPTHWISE = 5
    ROI_AVERAGE = 6
    ROI_MAX = 7


_LOWEST = {DType.F32: -3.4028235e38, DType.F16: -65504.0, DType.BF16: -3.3895314e38}
"""Where a maximum starts, so neither the infinity below nor a NaN is one."""
_DEPTHWISE = (PoolOp.DEPTHWISE, PoolOp.DEPTHWISE_RELU)


@dataclass(frozen=True, kw_only=True)
class PoolOrDepthwise(ComputeInstruction):
    """A window over every channel by itself; input and result aligned, N and C those of `shape` (PorD).

    DEPTHWISE: `weight` (1, c, kh, kw) compact of the input's width, or an immediate; `bias` (1, c, 1, 1) compact, int32
    for int8 input, else the input's type. AVERAGE: sum of the window times the immediate `weight` (f32 scale or integer
    multiplier). MAX. int8 results of DEPTHWISE and AVERAGE are shifted right by `shift` with `rounding` and saturated.
    AVERAGE rounds half up always.
    `pad_value`: immediate, or a compact (1, c, 1, 2) table: the pad value and the inserted value of each channel.
    """

    table_name = "sPorD"
    harmless = frozenset(
        {"opd2_addr", "opd2_sign", "opd2_n_str", "opd1_sign", "opd1_addr", "opd1_const", "opd2_const", "res1_addr"}
    )

    operation: PoolOp
    result: Operand
    shape: Shape4
    input: Operand
    input_size: Pair
    kernel: Pair
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    insert: Pair = (0, 0)
    pad_mode: PadMode = PadMode.CONSTANT
    rotate: bool = False
    weight: Source | None = None
    bias: Operand | None = None
    pad_value: Source | None = None
    shift: int = 0
    rounding: Rounding = Rounding.HALF_UP

    def mnemonic(self) -> str:
        return f"pord.{self.operation.name.lower()}"

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, self.dilation, self.insert, self.pad_mode, self.rotate)

    @property
    def _integer(self) -> bool:
        return not self.input.dtype.is_float

    def fields(self) -> dict[str, int]:
        signs = self._integer
        fields = {
            "tsk_eu_typ": int(self.operation),
            "res0_addr": self.result.address,
            "res0_prec": self.result.dtype.prec,
            "opd0_addr": self.input.address,
            "opd0_prec": self.input.dtype.prec,
            "opd0_sign": int(signs and self.input.dtype.signed),
            "opd0_h": self.input_size[0],
            "opd0_w": self.input_size[1],
            "opd2_n_str": rounding_code(self.rounding),
        }
        fields |= shape_fields("res0", self.shape) | self.window.fields() | source_fields("opd3", self.pad_value)
        if self.weight is not None:
            fields |= source_fields("opd1", self.weight) | {"opd1_sign": int(signs and self.weight.dtype.signed)}
        if self.operation in _DEPTHWISE:
            fields |= source_fields("opd2", self.bias)
            fields |= {"opd2_sign": int(signs and self.bias is not None), "res1_addr": self.shift << 8}
        else:
            fields["opd2_addr"] = self.shift
        return fields

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = PoolOp(fields["tsk_eu_typ"])
        kind = dtype_of(fields["opd0_prec"], fields["opd0_sign"])
        depthwise = operation in _DEPTHWISE
        weight: Source | None = None
        bias: Operand | None = None
        if depthwise:
            weight = fields.source("opd1", kind.prec, fields["opd1_sign"], Layout.COMPACT)
            if not fields["opd2_const"]:
                bias = fields.plain("opd2", kind.prec if kind.is_float else 4, 1, Layout.COMPACT)
        elif operation is PoolOp.AVERAGE:
            weight = fields.source("opd1", kind.prec, fields["opd1_sign"], Layout.COMPACT)
        pad_value: Source | None = fields.source("opd3", kind.prec, fields["opd0_sign"], Layout.COMPACT)
        if isinstance(pad_value, Scalar) and not pad_value.bits:
            pad_value = None
        window = read_window(fields)
        sign = kind.signed or (depthwise and (bool(fields["opd1_sign"]) or bool(fields["opd2_sign"])))
        return cls(
            operation=operation,
            result=fields.plain("res0", fields["res0_prec"], sign and operation is not PoolOp.DEPTHWISE_RELU),
            shape=fields.shape("res0"),
            input=fields.plain("opd0", fields["opd0_prec"], fields["opd0_sign"]),
            input_size=(fields["opd0_h"], fields["opd0_w"]),
            kernel=window.kernel,
            stride=window.stride,
            pads=window.pads,
            dilation=window.dilation,
            insert=window.insert,
            pad_mode=window.pad_mode,
            rotate=window.rotate,
            weight=weight,
            bias=bias,
            pad_value=pad_value,
            shift=signed(fields["res1_addr"] >> 8, 8) if depthwise else signed(fields["opd2_addr"], 8),
            rounding=rounding_of(fields["opd2_n_str"]),
        )

    def check(self) -> None:
        super().check()
        if self.operation >= PoolOp.ROI_DEPTHWISE:
            raise IllegalCommand(
                f"{self.mnemonic()}: the simulator does not know regions of interest; pool whole tensors"
            )
        self.window.check(self.mnemonic(), self.input_size, self.shape[2:])
        if (self.weight is None) != (self.operation is PoolOp.MAX):
            raise IllegalCommand(f"{self.mnemonic()}: weight is for all operations but MAX")
        source, result = self.input.dtype, self.result.dtype
        if source.is_float != result.is_float or (not source.is_float and source.bytes != 1):
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use int8 or floats on both sides")
        if self.operation is PoolOp.DEPTHWISE and result.bytes == 1 and result.signed != self._result_sign():
            raise IllegalCommand(
                f"{self.mnemonic()}: {result}: the result is signed as soon as input, weight or bias is"
            )
        if source.is_float and self.operation is PoolOp.DEPTHWISE_RELU:
            raise IllegalCommand(f"{self.mnemonic()}: {source}: it clamps integers only; use DEPTHWISE and a maximum")
        if source.is_float and source is not result:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use one float type")

    def _result_sign(self) -> bool:
        parts = (self.input, self.weight, self.bias)
        return any(part is not None and part.dtype.signed for part in parts)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _input_dims(self) -> Shape4:
        return (*self.shape[:2], *self.input_size)

    def reads(self) -> Sequence[Region]:
        channels = self.shape[1]
        regions = [self.input.region(self._input_dims())]
        if isinstance(self.weight, Operand):
            regions.append(self.weight.region((1, channels, *self.kernel)))
        if self.bias is not None:
            regions.append(self.bias.region((1, channels, 1, 1)))
        if isinstance(self.pad_value, Operand):
            regions.append(self.pad_value.region((1, channels, 1, 2)))
        return regions

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape)]

    # -- meaning -----------------------------------------------------------------------------------------------------

    def execute(self, machine: Machine) -> None:
        pads = pad_values(machine, self.pad_value, self.shape[1], self.input.dtype)
        x = self.window.pad(machine.load(self.input, self._input_dims()), *pads)
        match self.operation:
            case PoolOp.MAX:
                value = self._maximum(x)
            case PoolOp.AVERAGE:
                value = self._average(x)
            case _:
                value = self._depthwise(machine, x)
        machine.store(self.result, self.shape, value)

    def _maximum(self, x: Array) -> Array:
        window, taps = self.window, self.window.taps()
        if self._integer:
            best = window.shifted(x, taps[0], self.shape[2:]).copy()
            for tap in taps[1:]:
                np.maximum(best, window.shifted(x, tap, self.shape[2:]), out=best)
            return best
        kind = self.input.dtype.numpy
        x = flush(x) if kind == np.float32 else x.astype(np.float32)
        exact = flush(x) is x
        best = np.full(self.shape, _LOWEST[self.input.dtype], np.float32)
        for tap in taps:
            value = window.shifted(x, tap, self.shape[2:])
            np.copyto(best, value, where=~(best > value if exact else flush(best) > flush(value)))
        return best.astype(kind, copy=False)

    def _average(self, x: Array) -> Array:
        assert self.weight is not None
        assert isinstance(self.weight, Scalar)
        scale = self.weight.value()
        if not self._integer:
            factor = flush(scale).astype(np.float32)
            return self._float_sum(x, factor, [factor] * len(self.window.taps()), None)
        total = np.zeros(self.shape, np.int32)
        for tap in self.window.taps():
            total += self.window.shifted(x, tap, self.shape[2:]) * scale.astype(np.int32)
        return self._narrow(total, Rounding.HALF_UP)

    def _float_sum(
        self, x: Array, weight: Array, factors: Sequence[Array], starts: tuple[Array, Array] | None
    ) -> Array:
        """Every product and every sum is rounded to the type; `factors` of the taps are parts of `weight`."""
        x, window = flush(x).astype(np.float32, copy=False), self.window
        starts = None if starts is None else (flush(starts[0]), flush(starts[1]))
        with np.errstate(all="ignore"):
            plain = without_denormals(x, weight, *(starts or ()))
            views = (window.shifted(x, tap, self.shape[2:]) for tap in window.taps())
            pairs = zip(views, factors, strict=True)
            return canonical(alternating_sum(pairs, starts, self.result.dtype.numpy, plain))

    def _depthwise(self, machine: Machine, x: Array) -> Array:
        channels, taps = self.shape[1], self.window.taps()
        assert self.weight is not None
        weight = np.broadcast_to(machine.fetch(self.weight, (1, channels, *self.kernel)), (1, channels, *self.kernel))
        weight = weight.reshape(1, channels, len(taps))
        if self.rotate:
            weight = weight[..., ::-1]
        bias = machine.load(self.bias, (1, channels, 1, 1)) if self.bias is not None else None
        if not self._integer:
            zero = np.zeros(self.shape, np.float32)
            starts = (zero, zero if bias is None else np.broadcast_to(bias, self.shape))
            weight = flush(np.ascontiguousarray(weight)).astype(np.float32)
            return self._float_sum(x, weight, [weight[:, :, tap, None, None] for tap in range(len(taps))], starts)
        wide, weight = np.int32, weight.astype(np.int32)
        total = np.zeros(self.shape, wide)
        product = np.empty(self.shape, wide)
        for index, tap in enumerate(taps):
            np.multiply(self.window.shifted(x, tap, self.shape[2:]), weight[:, :, index, None, None], out=product)
            total += product
        if bias is not None:
            total += bias.astype(wide)
        if self.operation is PoolOp.DEPTHWISE_RELU:
            total = np.maximum(total, 0)
        return self._narrow(total, self.rounding)

    def _narrow(self, total: Array, rounding: Rounding) -> Array:
        result = self.result.dtype
        if result.bytes == 4:
            return total.astype(result.numpy)
        return saturate(shift_right(total.astype(np.int64), np.int64(self.shift), rounding), result.numpy)


__all__ = ["DType", "PoolOp", "PoolOrDepthwise"]
