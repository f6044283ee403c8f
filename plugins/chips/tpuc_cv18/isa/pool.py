"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Derived, Encoding, Ignored, Number, When

from tpuc_cv18.isa.bf16 import Accumulator, narrow, products, widen
from tpuc_cv18.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD
from tpuc_cv18.isa.codecs import FLOAT, Extents, Tensor, extents, strides_of
from tpuc_cv18.isa.finish import round_shift
from tpuc_cv18.isa.types import Array, DType, Pair, Scalar, Shape4
from tpuc_cv18.isa.windows import WindowInstruction, pad_array

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

_POOL = Encoding(
    Constant(tsk_typ=1, opt_relu=0),
    FLOAT,
    Tensor("result", "res0"),
    extents("result_shape", "res0"),
    Tensor("input", "opd0"),
    extents("input_size", "opd0", "hw"),
    Extents("opd0", lambda pool: pool.result_shape[:2], "nc"),
    WindowInstruction.window_encoding,
    Ignored("opt_left_shift", "quan_m", "opd1_n", "opd1_c", "opt_opd1_int8", "short_opd1*", *THIRD),
    Ignored(*strides_of("res0"), *INPUT_STRIDES, *KERNEL_STRIDES),
)


@dataclass(frozen=True, kw_only=True)
class _Pool(WindowInstruction):
    """Base of pooling: 8 bits or bf16, result and input ALIGNED; padding takes part with `pad_value`."""

    input_size: Pair
    """Height, width; N and C are those of the result."""

    @property
    def input_shape(self) -> Shape4:
        """Extents of the input."""
        return (*self.result_shape[:2], *self.input_size)

    def check(self) -> None:
        super().check()
        name = self.mnemonic()
        self.window.check(name, self.input_size, self.result_shape[2:])
        if self.result.dtype is not self.input.dtype or self.result.dtype.planes > 1:
            raise IllegalCommand(
                f"{name}: {self.input.dtype} to {self.result.dtype}; use int8, uint8 or bf16 on both sides"
            )

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self.target)

    def reads(self) -> Sequence[Region]:
        return self.input.regions(self.input_shape, self.target)

    def _padded(self, machine: Machine) -> Array:
        return self.window.pad(machine.load(self.input, self.input_shape), pad_array(self.pad_value, self.input.dtype))


_EXTREME = Encoding(
    _POOL,
    Constant(tsk_opd_num=1, opt_right_shift=0),
    Derived("opt_shift_typ", lambda pool: pool.result.dtype.signed and not pool.is_float),
    Ignored("opd1_addr", "opt_opd1*", "opt_shift_typ"),
)


@dataclass(frozen=True, kw_only=True)
class MaxPool(_Pool):
    """The largest element in the window; integer results are at least `pad_value`. Use -128 for int8, 0xFF7F for
    bf16.
    """

    stem = "pool.max"
    encoding = Encoding(_EXTREME, Constant(tsk_eu_typ=0))
    better: ClassVar[np.ufunc] = np.maximum
    start: ClassVar[float] = -np.inf

    def check(self) -> None:
        super().check()
        if any((*self.insert, *self.insert_last)):
            raise IllegalCommand(f"{self.mnemonic()}: inserted elements are not supported here; leave them out")

    def execute(self, machine: Machine) -> None:
        padded, size = self._padded(machine), self.result_shape[2:]
        values = widen(padded) if self.is_float else padded
        taps = self.window.taps()
        # Integer windows start from the pad value; bf16 windows see it only beyond the border.
        best = np.full(self.result_shape, self.start if self.is_float else self.pad_value, values.dtype)
        for tap in taps:
            self.better(best, self.window.shifted(values, tap, size), out=best)
        machine.store(self.result, self.result_shape, narrow(best) if self.is_float else best)


@dataclass(frozen=True, kw_only=True)
class MinPool(MaxPool):
    """The smallest element in the window; integer results are at most `pad_value`. Use 127 for int8, 0x7F7F for
    bf16.
    """

    stem = "pool.min"
    encoding = Encoding(_EXTREME, Constant(tsk_eu_typ=3))
    better = np.minimum
    start = np.inf

    def check(self) -> None:
        super().check()
        if not self.target.has_comparisons:
            raise IllegalCommand(f"pool.min: {self.target.name} has none; negate, and take the largest")


@dataclass(frozen=True, kw_only=True)
class AveragePool(_Pool):
    """`saturate((sum * factor) >> shift)`, half up; `factor` is an unsigned byte, or bf16 bits for bf16 operands."""

    stem = "pool.average"
    encoding = Encoding(
        _POOL,
        Constant(tsk_eu_typ=1, tsk_opd_num=2, opt_opd1_sign=0, opt_opd1_int8=1, opt_opd1_const=1),
        Number("factor", "opd1_addr"),
        When(
            lambda pool: pool.is_float,
            Derived("opt_right_shift", lambda pool: pool.shift),
            otherwise=[Number("shift", "opt_right_shift")],
        ),
        Derived("opt_shift_typ", lambda pool: pool.result.dtype.signed),
    )

    factor: int
    shift: int = 0

    def execute(self, machine: Machine) -> None:
        padded, size = self._padded(machine), self.result_shape[2:]
        if self.is_float:
            factor = widen(Scalar(self.factor, DType.BF16).value().reshape(1))
            values = products(widen(padded), factor)
            total = Accumulator(np.zeros(self.result_shape, np.float32))
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for tap in self.window.taps():
                    total.add(self.window.shifted(values, tap, size))
            machine.store(self.result, self.result_shape, narrow(total.total))
            return
        sums = np.zeros(self.result_shape, np.int64)
        for tap in self.window.taps():
            sums += self.window.shifted(padded, tap, size)
        result = round_shift(sums * (self.factor & 0xFF), self.shift, False, self.result.dtype)
        machine.store(self.result, self.result_shape, result)
