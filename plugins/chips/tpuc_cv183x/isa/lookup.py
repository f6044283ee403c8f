"""Table lookup, and the sum over the elements of each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD
from tpuc_cv183x.isa.command import ComputeInstruction, FieldReader, derived_fields, shape_fields
from tpuc_cv183x.isa.finish import round_shift
from tpuc_cv183x.isa.geometry import LANES
from tpuc_cv183x.isa.types import DType, Layout, Operand, Shape4

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine

TABLE_ENTRIES = 256
_RESULT_STRIDES = ("res0_n_str", "res0_c_str", "res0_h_str", "res0_w_str", "res0_b_str")
_TABLE_SHAPE: dict[bool, Shape4] = {False: (1, LANES, 16, 16), True: (1, LANES, 32, 8)}


@dataclass(frozen=True, kw_only=True)
class Lookup(ComputeInstruction):
    """`result = table[input]`: 256 entries, the same on all lanes, at the address `table`; tensors ALIGNED.

    Bytes index a table of bytes; bf16 (any 16-bit words) index by their low byte and give the 16-bit word, unchanged.
    """

    ignored = frozenset(
        {*_RESULT_STRIDES, *INPUT_STRIDES, *KERNEL_STRIDES, "opt_left_shift", "quan_m", "opd0_ins_val", "opd0_ins_fp"}
    )

    shape: Shape4
    result: Operand
    input: Operand
    table: int

    def mnemonic(self) -> str:
        return "lookup"

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    def fields(self) -> dict[str, int]:
        floats = self.is_float
        fields = {
            "tsk_typ": 3,
            "tsk_eu_typ": 12 if floats else 0,
            "tens_lookup": 1,
            "tsk_opd_num": 2,
            "opd_typ": int(floats),
            "opt_shift_typ": 0,
            "opt_right_shift": 0,
            "opt_relu": 0,
            "opd1_addr": self.table,
            "opt_opd2_int8": int(floats),
        }
        name = self.mnemonic()
        fields |= derived_fields(name, "res0", self.result) | derived_fields(name, "opd0", self.input)
        fields |= {f"opt_{prefix}_sign": int(floats) for prefix in ("res0", "opd0", "opd1")}
        fields |= shape_fields("res0", self.shape) | shape_fields("opd0", self.shape)
        return fields | shape_fields("opd1", _TABLE_SHAPE[floats])

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        kind = DType.BF16 if fields["opd_typ"] else DType.UINT8
        return cls(
            shape=fields.shape("res0"),
            result=Operand(fields["res0_addr"], kind),
            input=Operand(fields["opd0_addr"], kind),
            table=fields["opd1_addr"],
        )

    def unused_operands(self) -> tuple[str, ...]:
        return ("rsvd", *THIRD)

    def check(self) -> None:
        super().check()
        if self.result.dtype.bytes != self.input.dtype.bytes or self.input.dtype.planes > 1:
            raise IllegalCommand(f"lookup: {self.input.dtype} to {self.result.dtype}; use 8 bits or bf16 on both sides")
        if self.input.lane or self.result.lane:
            raise IllegalCommand(f"lookup: input {self.input} and result {self.result} must start in lane 0")

    def reads(self) -> Sequence[Region]:
        size = TABLE_ENTRIES * self.input.dtype.bytes
        table = Region("lmem", self.table, self.table + size, 0, min(LANES, self.shape[1]))
        return [*self.input.regions(self.shape), table]

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.shape)

    def execute(self, machine: Machine) -> None:
        kind = np.dtype(np.uint16 if self.is_float else np.uint8)
        size = kind.itemsize
        index = machine.load_raw(self.input.address, self.shape, self.input.strides(self.shape), kind) & 0xFF
        entries = (1, LANES, 1, TABLE_ENTRIES)
        table = machine.load_raw(self.table, entries, (0, 0, 0, size), kind).reshape(LANES, TABLE_ENTRIES)
        lanes = (self.input.lane + np.arange(self.shape[1])) % LANES
        values = table[lanes[None, :, None, None], index]
        machine.store_raw(self.result.address, self.shape, self.result.strides(self.shape), values)


@dataclass(frozen=True, kw_only=True)
class ChannelSum(ComputeInstruction):
    """`result[c] = saturate(sum of input over n, h, w >> shift)`, half up; 8-bit, input ALIGNED, result COMPACT."""

    ignored = frozenset({*_RESULT_STRIDES, *INPUT_STRIDES, "opt_left_shift", "quan_m", "tsk_eu_typ", "opd0_ins_val"})

    result: Operand
    input: Operand
    input_shape: Shape4
    shift: int = 0

    def mnemonic(self) -> str:
        return "tensor.sum"

    @property
    def result_shape(self) -> Shape4:
        """One value per channel."""
        return (1, self.input_shape[1], 1, 1)

    def fields(self) -> dict[str, int]:
        name = self.mnemonic()
        fields = {
            "tsk_typ": 3,
            "tens_mdsum": 1,
            "tsk_opd_num": 1,
            "opt_relu": 0,
            "opt_right_shift": self.shift,
            "opt_shift_typ": int(self.result.dtype.signed),
        }
        fields |= derived_fields(name, "res0", self.result, Layout.COMPACT) | derived_fields(name, "opd0", self.input)
        return fields | shape_fields("res0", self.result_shape) | shape_fields("opd0", self.input_shape)

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        if fields["opd_typ"]:
            raise IllegalCommand("tensor.sum: its bf16 form is not understood; use average pooling")
        return cls(
            result=Operand(fields["res0_addr"], fields.dtype("res0"), Layout(min(fields["short_res0_str"], 2))),
            input=Operand(fields["opd0_addr"], fields.dtype("opd0"), Layout(min(fields["short_opd0_str"], 2))),
            input_shape=fields.shape("opd0"),
            shift=fields["opt_right_shift"],
        )

    def unused_operands(self) -> tuple[str, ...]:
        return ("rsvd", "opd1", "opt_opd1", "short_opd1", *THIRD)

    def check(self) -> None:
        super().check()
        if self.result.dtype is not self.input.dtype or self.input.dtype.bytes * self.input.dtype.planes > 1:
            raise IllegalCommand(
                f"tensor.sum: {self.input.dtype} to {self.result.dtype}; use int8 or uint8 on both sides"
            )

    def reads(self) -> Sequence[Region]:
        return self.input.regions(self.input_shape)

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape)

    def execute(self, machine: Machine) -> None:
        sums = machine.load(self.input, self.input_shape).sum(axis=(0, 2, 3), dtype=np.int64)
        values = round_shift(sums.reshape(self.result_shape), self.shift, False, self.result.dtype)
        machine.store(self.result, self.result_shape, values)
