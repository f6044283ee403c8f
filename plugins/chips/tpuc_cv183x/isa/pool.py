"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.bf16 import Accumulator, narrow, products, widen
from tpuc_cv183x.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD
from tpuc_cv183x.isa.command import ComputeInstruction, FieldReader, derived_fields, shape_fields, type_fields
from tpuc_cv183x.isa.finish import round_shift
from tpuc_cv183x.isa.types import Array, DType, Operand, Pair, Scalar, Shape4
from tpuc_cv183x.isa.windows import Pads, Window, pad_array, pad_fields, read_pad, read_window

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine

_RESULT_STRIDES = ("res0_n_str", "res0_c_str", "res0_h_str", "res0_w_str", "res0_b_str")


@dataclass(frozen=True, kw_only=True)
class _Pool(ComputeInstruction):
    """What both kinds of pooling share: 8 bits or bf16, result and input ALIGNED; padding takes part as `pad_value`."""

    ignored = frozenset(
        {*_RESULT_STRIDES, *INPUT_STRIDES, *KERNEL_STRIDES, "opt_left_shift", "quan_m", "opt_opd1_int8"}
    )

    result: Operand
    result_shape: Shape4
    input: Operand
    input_size: Pair
    """Height, width; N and C are the result's."""
    kernel: Pair
    stride: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    insert: Pair = (0, 0)
    insert_last: Pair = (0, 0)
    pad_value: int = 0

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window(self.kernel, self.stride, self.pads, (1, 1), self.insert, self.insert_last)

    @property
    def input_shape(self) -> Shape4:
        """Of the whole input."""
        return (*self.result_shape[:2], *self.input_size)

    def _common_fields(self) -> dict[str, int]:
        name = self.mnemonic()
        fields = {"tsk_typ": 1, "opt_relu": 0, "opd_typ": int(self.is_float)}
        fields |= derived_fields(name, "res0", self.result) | derived_fields(name, "opd0", self.input)
        fields |= shape_fields("res0", self.result_shape) | shape_fields("opd0", self.input_shape)
        return fields | self.window.fields() | pad_fields(self.pad_value, self.input.dtype)

    def unused_operands(self) -> tuple[str, ...]:
        other = "opd0_ins_val" if self.is_float else "opd0_ins_fp"
        return ("rsvd", other, "opd1_n", "opd1_c", "short_opd1", *THIRD)

    def check(self) -> None:
        super().check()
        name = self.mnemonic()
        self.window.check(name, self.input_size, self.result_shape[2:])
        if self.result.dtype is not self.input.dtype or self.result.dtype.planes > 1:
            raise IllegalCommand(
                f"{name}: {self.input.dtype} to {self.result.dtype}; use int8, uint8 or bf16 on both sides"
            )

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape)

    def reads(self) -> Sequence[Region]:
        return self.input.regions(self.input_shape)

    def _padded(self, machine: Machine) -> Array:
        return self.window.pad(machine.load(self.input, self.input_shape), pad_array(self.pad_value, self.input.dtype))


@dataclass(frozen=True, kw_only=True)
class MaxPool(_Pool):
    """The largest element under the window, in integers at least `pad_value`; use -128 for int8, 0xFF7F for bf16."""

    def mnemonic(self) -> str:
        return "pool.max"

    def fields(self) -> dict[str, int]:
        shift_type = int(self.result.dtype.signed and not self.is_float)
        return self._common_fields() | {
            "tsk_eu_typ": 0,
            "tsk_opd_num": 1,
            "opt_right_shift": 0,
            "opt_shift_typ": shift_type,
        }

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        window, dtype = read_window(fields), fields.dtype("opd0")
        return cls(
            result=Operand(fields["res0_addr"], fields.dtype("res0")),
            result_shape=fields.shape("res0"),
            input=Operand(fields["opd0_addr"], dtype),
            input_size=fields.shape("opd0")[2:],
            kernel=window.kernel,
            stride=window.stride,
            pads=window.pads,
            insert=window.insert,
            insert_last=window.insert_last,
            pad_value=read_pad(fields, dtype),
        )

    def unused_operands(self) -> tuple[str, ...]:
        return (*super().unused_operands(), "opd1_addr", "opt_opd1", "opt_shift_typ")

    def check(self) -> None:
        super().check()
        if any((*self.insert, *self.insert_last)):
            raise IllegalCommand(f"{self.mnemonic()}: inserted elements are not understood here; leave them out")

    def execute(self, machine: Machine) -> None:
        padded, size = self._padded(machine), self.result_shape[2:]
        values = widen(padded) if self.is_float else padded
        taps = self.window.taps()
        # Integer windows start from the pad value, bf16 ones meet it only beyond the border.
        best = np.full(self.result_shape, -np.inf if self.is_float else self.pad_value, values.dtype)
        for tap in taps:
            np.maximum(best, self.window.shifted(values, tap, size), out=best)
        machine.store(self.result, self.result_shape, narrow(best) if self.is_float else best)


@dataclass(frozen=True, kw_only=True)
class AveragePool(_Pool):
    """`saturate((sum * factor) >> shift)`, half up; `factor` is an unsigned byte, or bf16 bits beside bf16 operands."""

    factor: int
    shift: int = 0

    def mnemonic(self) -> str:
        return "pool.average"

    def fields(self) -> dict[str, int]:
        return (
            self._common_fields()
            | type_fields("opd1", DType.UINT8)
            | {
                "tsk_eu_typ": 1,
                "tsk_opd_num": 2,
                "opt_opd1_const": 1,
                "opd1_addr": self.factor,
                "opt_right_shift": self.shift,
                "opt_shift_typ": int(self.result.dtype.signed),
            }
        )

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        window, dtype = read_window(fields), fields.dtype("opd0")
        return cls(
            result=Operand(fields["res0_addr"], fields.dtype("res0")),
            result_shape=fields.shape("res0"),
            input=Operand(fields["opd0_addr"], dtype),
            input_size=fields.shape("opd0")[2:],
            kernel=window.kernel,
            stride=window.stride,
            pads=window.pads,
            insert=window.insert,
            insert_last=window.insert_last,
            pad_value=read_pad(fields, dtype),
            factor=fields["opd1_addr"],
            shift=0 if dtype.is_float else fields["opt_right_shift"],
        )

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
