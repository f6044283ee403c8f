"""Table lookup, and sums over each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Derived, Draft, Encoding, FieldCodec, Fields, Ignored, Number

from tpuc_cv18.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD
from tpuc_cv18.isa.codecs import FLOAT, Extents, Tensor, extents, strides_of
from tpuc_cv18.isa.command import ComputeInstruction
from tpuc_cv18.isa.finish import round_shift
from tpuc_cv18.isa.types import DType, Layout, Operand, Pair, Shape4

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

LOOKUP_CODE = 12
TABLE_ENTRIES = 256
_TABLE_SIZE: dict[bool, Pair] = {False: (16, 16), True: (32, 8)}


class _WholeTensor(Tensor):
    """Codec of a byte or bf16 tensor; its flags state whether it is bf16."""

    def write(self, instruction: Lookup, fields: dict[str, int]) -> None:
        super().write(instruction, fields)
        fields[self.sign] = int(instruction.is_float)

    def dtype(self, fields: Fields) -> DType:
        return DType.BF16 if fields["opd_typ"] else DType.UINT8


class _IntegersOnly(FieldCodec):
    """Codec that raises IllegalCommand for float descriptors."""

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        pass

    def read(self, draft: Draft, fields: Fields) -> None:
        if fields["opd_typ"]:
            raise IllegalCommand("tensor.sum: its bf16 form is unknown; use average pooling")


@dataclass(frozen=True, kw_only=True)
class Lookup(ComputeInstruction):
    """`result = table[input]`: 256 entries at the address `table`, identical in all lanes; tensors are ALIGNED.

    Bytes index a byte table. bf16 elements (any 16-bit words) index by their low byte and yield the unmodified 16-bit
    entry.
    """

    stem = "lookup"
    encoding = Encoding(
        Constant(tsk_typ=3, tsk_opd_num=2, opt_shift_typ=0, opt_right_shift=0, opt_relu=0),
        Derived("tens_lookup", lambda lookup: lookup.target.has_lookup_bit),
        Derived("tsk_eu_typ", lambda lookup: LOOKUP_CODE if lookup.is_float or not lookup.target.has_lookup_bit else 0),
        FLOAT,
        _WholeTensor("result", "res0"),
        _WholeTensor("input", "opd0"),
        extents("shape", "res0"),
        Extents("opd0", lambda lookup: lookup.shape),
        Number("table", "opd1_addr"),
        Extents("opd1", lambda lookup: (1, lookup.target.lanes, *_TABLE_SIZE[lookup.is_float])),
        Derived("opt_opd1_sign", lambda lookup: lookup.is_float),
        Derived("opt_opd2_int8", lambda lookup: lookup.is_float),
        Ignored("opt_left_shift", "quan_m", "opd0_ins_val", "opd0_ins_fp", *THIRD),
        Ignored(*strides_of("res0"), *INPUT_STRIDES, *KERNEL_STRIDES),
    )

    shape: Shape4
    result: Operand
    input: Operand
    table: int

    @property
    def is_float(self) -> bool:
        return self.input.dtype.is_float

    def check(self) -> None:
        super().check()
        if self.result.dtype.bytes != self.input.dtype.bytes or self.input.dtype.planes > 1:
            raise IllegalCommand(f"lookup: {self.input.dtype} to {self.result.dtype}; use 8 bits or bf16 on both sides")
        if self.input.lane or self.result.lane:
            raise IllegalCommand(f"lookup: input {self.input} and result {self.result} must start in lane 0")

    def reads(self) -> Sequence[Region]:
        size = TABLE_ENTRIES * self.input.dtype.bytes
        table = Region("lmem", self.table, self.table + size, 0, min(self.target.lanes, self.shape[1]))
        return [*self.input.regions(self.shape, self.target), table]

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.shape, self.target)

    def execute(self, machine: Machine) -> None:
        target, kind = machine.target, np.dtype(np.uint16 if self.is_float else np.uint8)
        size, strides = kind.itemsize, self.input.strides(self.shape, target)
        index = machine.load_raw(self.input.address, self.shape, strides, kind) & 0xFF
        entries = (1, target.lanes, 1, TABLE_ENTRIES)
        table = machine.load_raw(self.table, entries, (0, 0, 0, size), kind).reshape(target.lanes, TABLE_ENTRIES)
        lanes = (self.input.lane + np.arange(self.shape[1])) % target.lanes
        values = table[lanes[None, :, None, None], index]
        machine.store_raw(self.result.address, self.shape, self.result.strides(self.shape, target), values)


@dataclass(frozen=True, kw_only=True)
class ChannelSum(ComputeInstruction):
    """`result[c] = saturate(sum of input over n, h, w >> shift)`, half up; 8-bit, input ALIGNED, result COMPACT."""

    stem = "tensor.sum"
    encoding = Encoding(
        Constant(tsk_typ=3, tens_mdsum=1, tsk_opd_num=1, opt_relu=0),
        _IntegersOnly(),
        Tensor("result", "res0", layout=Layout.COMPACT),
        Extents("res0", lambda total: total.result_shape),
        Tensor("input", "opd0"),
        extents("input_shape", "opd0"),
        Number("shift", "opt_right_shift"),
        Derived("opt_shift_typ", lambda total: total.result.dtype.signed),
        Ignored("opt_left_shift", "quan_m", "tsk_eu_typ", "opd0_ins_val", "opd1*", "opt_opd1*", "short_opd1*", *THIRD),
        Ignored(*strides_of("res0"), *INPUT_STRIDES),
    )

    result: Operand
    input: Operand
    input_shape: Shape4
    shift: int = 0

    @property
    def result_shape(self) -> Shape4:
        """One value per channel."""
        return (1, self.input_shape[1], 1, 1)

    def check(self) -> None:
        super().check()
        if not self.target.has_channel_sums:
            raise IllegalCommand(f"tensor.sum: {self.target.name} has none; use average pooling")
        if self.result.dtype is not self.input.dtype or self.input.dtype.bytes * self.input.dtype.planes > 1:
            raise IllegalCommand(
                f"tensor.sum: {self.input.dtype} to {self.result.dtype}; use int8 or uint8 on both sides"
            )

    def reads(self) -> Sequence[Region]:
        return self.input.regions(self.input_shape, self.target)

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self.target)

    def execute(self, machine: Machine) -> None:
        sums = machine.load(self.input, self.input_shape).sum(axis=(0, 2, 3), dtype=np.int64)
        values = round_shift(sums.reshape(self.result_shape), self.shift, False, self.result.dtype)
        machine.store(self.result, self.result_shape, values)
