"""Depthwise convolution and pooling (PorD)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Cases, Constant, Derived, Encoding, Ignored, Signed, When
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa import fused
from tpuc_bm1684x.isa.codecs import IntegerSign, Tensor, extents, operation, rounding, states_operands
from tpuc_bm1684x.isa.elementwise import canonical, flush
from tpuc_bm1684x.isa.fused import Fusion
from tpuc_bm1684x.isa.sums import alternating_sum, without_denormals
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Pair, Scalar, Shape4, Source, regions_of
from tpuc_bm1684x.isa.windows import PAD_VALUE, WindowInstruction, pad_values

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
"""Initial value of a maximum: neither negative infinity nor NaN can become the result."""
_SUMS = (PoolOp.DEPTHWISE, PoolOp.AVERAGE)
_DEPTHWISE = (PoolOp.DEPTHWISE, PoolOp.DEPTHWISE_RELU)


_WEIGHT = Tensor(
    "weight", "opd1", prec=lambda pool: pool.input.dtype.prec, layout=Layout.COMPACT, immediate=True, float_sign=0
)
_DEPTHWISE_PARTS = Encoding(
    _WEIGHT,
    Tensor(
        "bias",
        "opd2",
        prec=lambda pool: DType.INT32.prec if pool.is_integer else pool.input.dtype.prec,
        sign=1,
        layout=Layout.COMPACT,
        optional=True,
    ),
    Derived("opd2_sign", lambda pool: pool.is_integer and pool.bias is not None),
    When(lambda pool: pool.bias is not None or not pool.is_integer, Ignored("opd2_sign")),
    Signed("shift", "res1_addr", 8, at=8),
)
_PLAIN_SHIFT = Encoding(Signed("shift", "opd2_addr", 8), Ignored("opd2_sign"))


def _may_requantize(pool: PoolOrDepthwise) -> bool:
    """True for sums of integers on chips with registers."""
    return pool.is_integer and pool.operation in _SUMS and pool.target.has_registers


def _gives_values(pool: PoolOrDepthwise) -> bool:
    """True where a maximum gives values or their places, as a field says."""
    return pool.operation is PoolOp.MAX and pool.target.states_signs


@dataclass(frozen=True, kw_only=True)
class PoolOrDepthwise(WindowInstruction):
    """Depthwise convolution or pooling; input and result are aligned and share N and C of `shape` (PorD).

    DEPTHWISE: `weight` (1, c, kh, kw) compact in the input's type, or an immediate; `bias` (1, c, 1, 1) compact, int32
    for int8 input, else the input's type. AVERAGE: sum of the window times the immediate `weight` (f32 scale or integer
    multiplier). MAX. int8 results of DEPTHWISE and AVERAGE are shifted right by `shift` with `rounding` and saturated;
    AVERAGE always rounds half up.

    `pad_value`: an immediate, or a compact (1, c, 1, 2) table of the pad value and the inserted value of each channel.
    """

    table_name = "sPorD"
    stem = "pord"
    encoding = Encoding(
        operation(PoolOp),
        extents("shape", "res0"),
        Tensor("input", "opd0", float_sign=0),
        extents("input_size", "opd0", "hw"),
        WindowInstruction.window_encoding,
        PAD_VALUE,
        rounding("rounding", "opd2_n_str"),
        Cases(
            "operation",
            {
                PoolOp.DEPTHWISE: _DEPTHWISE_PARTS,
                PoolOp.DEPTHWISE_RELU: _DEPTHWISE_PARTS,
                PoolOp.AVERAGE: Encoding(_WEIGHT, _PLAIN_SHIFT),
                PoolOp.MAX: When(_gives_values, otherwise=[_PLAIN_SHIFT]),
            },
            others=_PLAIN_SHIFT,
        ),
        Tensor("result", "res0", sign=lambda pool: pool.result_sign()),
        When(states_operands, IntegerSign()),
        When(_may_requantize, Fusion(), Ignored("opd5_const")),
        When(_gives_values, Constant(opd2_addr=0xFFFFFFFF), Ignored("opd2_n_str"), otherwise=[Ignored("opd2_addr")]),
        Ignored("opd2_n_str", "opd1_sign", "opd1_addr", "opd1_const", "opd2_const", "res1_addr"),
    )

    operation: PoolOp
    result: Operand
    shape: Shape4
    input: Operand
    input_size: Pair
    weight: Source | None = None
    bias: Operand | None = None
    pad_value: Source | None = None
    shift: int = 0

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def is_integer(self) -> bool:
        """True for integer input."""
        return not self.input.dtype.is_float

    def check(self) -> None:
        super().check()
        if self.operation >= PoolOp.ROI_DEPTHWISE:
            raise IllegalCommand(
                f"{self.mnemonic()}: the simulator does not support regions of interest; pool whole tensors"
            )
        shifts = self.is_integer and self.result.dtype.bytes == 1 and self.shift and self.operation is not PoolOp.MAX
        if shifts and not self.target.shifts_pools:
            raise IllegalCommand(f"{self.mnemonic()}: it does not shift; give 32-bit sums and requantize them")
        self.window.check(self.mnemonic(), self.input_size, self.shape[2:])
        if self.requantizes:
            fused.check(self.mnemonic(), self.target, self.result.dtype)
        if (self.weight is None) != (self.operation is PoolOp.MAX):
            raise IllegalCommand(f"{self.mnemonic()}: MAX takes no weight, and all other operations need one")
        source, result = self.input.dtype, self.result.dtype
        if source.is_float != result.is_float or (not source.is_float and source.bytes != 1):
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use int8 or floats on both sides")
        if (
            self.operation is PoolOp.DEPTHWISE
            and result.bytes == 1
            and not self.requantizes
            and result.signed != self.result_sign()
        ):
            raise IllegalCommand(
                f"{self.mnemonic()}: {result}: the result must be signed if input, weight, or bias is, else unsigned"
            )
        if source.is_float and self.operation is PoolOp.DEPTHWISE_RELU:
            raise IllegalCommand(f"{self.mnemonic()}: {source}: it clamps integers only; use DEPTHWISE and a maximum")
        if source.is_float and source is not result:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result}; use one float type")

    def result_sign(self) -> bool:
        """True when an integer result is signed."""
        if self.operation is not PoolOp.DEPTHWISE:
            return self.input.dtype.signed and self.operation is not PoolOp.DEPTHWISE_RELU
        return any(part is not None and part.dtype.signed for part in (self.input, self.weight, self.bias))

    # -- memory ------------------------------------------------------------------------------------------------------

    def _input_dims(self) -> Shape4:
        return (*self.shape[:2], *self.input_size)

    def reads(self) -> Sequence[Region]:
        channels = self.shape[1]
        return fused.registers_read(self) + regions_of(
            self.target,
            (self.input, self._input_dims()),
            (self.weight, (1, channels, *self.kernel)),
            (self.bias, (1, channels, 1, 1)),
            (self.pad_value, (1, channels, 1, 2)),
        )

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    # -- meaning -----------------------------------------------------------------------------------------------------

    def execute(self, machine: Machine) -> None:
        pads = pad_values(machine, self.pad_value, self.shape[1], self.input.dtype)
        x = self.window.pad(machine.load(self.input, self._input_dims()), *pads)
        match self.operation:
            case PoolOp.MAX:
                value = self._maximum(x)
            case PoolOp.AVERAGE:
                value = self._average(machine, x)
            case _:
                value = self._depthwise(machine, x)
        machine.store(self.result, self.shape, value)

    def _maximum(self, x: Array) -> Array:
        window, taps = self.window, self.window.taps()
        if self.is_integer:
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

    def _average(self, machine: Machine, x: Array) -> Array:
        assert self.weight is not None
        assert isinstance(self.weight, Scalar)
        scale = self.weight.value()
        if not self.is_integer:
            factor = flush(scale).astype(np.float32)
            return self._float_sum(x, factor, [factor] * len(self.window.taps()), None)
        total = np.zeros(self.shape, np.int32)
        for tap in self.window.taps():
            total += self.window.shifted(x, tap, self.shape[2:]) * scale.astype(np.int32)
        return self._stored(machine, total, Rounding.HALF_UP)

    def _float_sum(
        self, x: Array, weight: Array, factors: Sequence[Array], starts: tuple[Array, Array] | None
    ) -> Array:
        """Sum the products of all taps, rounding each product and each sum to the result type. `factors` are the
        per-tap parts of `weight`.
        """
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
        if not self.is_integer:
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
        return self._stored(machine, total, self.rounding)

    def _stored(self, machine: Machine, total: Array, rounding: Rounding) -> Array:
        if self.requantizes:
            return fused.fused(machine, self, total, self.result.dtype)
        return self._narrow(total, rounding)

    def _narrow(self, total: Array, rounding: Rounding) -> Array:
        result = self.result.dtype
        if result.bytes == 4:
            return total.astype(result.numpy)
        return saturate(shift_right(total.astype(np.int64), np.int64(self.shift), rounding), result.numpy)


__all__ = ["DType", "PoolOp", "PoolOrDepthwise"]
