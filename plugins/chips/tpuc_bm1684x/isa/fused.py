"""Requantization within a command that computes sums of integers, whose parameters are in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Draft, FieldCodec, Fields
from tpuc_ops.quant.arithmetic import Rounding, requantize

from tpuc_bm1684x.isa.command import KERNEL_POINT, ComputeInstruction, register_region
from tpuc_bm1684x.isa.system import WriteRegisters
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, rounding_code, rounding_of

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine

RECORDS, SHIFT, RESULT_POINT = 6, 32, 33
"""Registers: the address of the records or the one multiplier, its shift, the zero point of the result."""
_SIGNED_BYTE, _SIGNED_HALF = np.int8, np.int16


@dataclass(frozen=True, kw_only=True)
class Requantizing(ComputeInstruction):
    """Attributes common to commands that can requantize their sums."""

    requantizes: bool = False
    """Integer sums become the result's type by parameters in registers."""
    table: int | None = None
    """The address of records {multiplier, shift and zero point} per channel, compact; None: one record, in registers.
    """
    relu: bool = False
    """Negative sums become 0, before `requantizes`."""
    rounding: Rounding = Rounding.HALF_UP

    @property
    def channels(self) -> int:
        """Channels of the result."""
        raise NotImplementedError

    @property
    def reads_kernel_point(self) -> bool:
        """True where the zero point of the second operand is in a register."""
        return False


class Fusion(FieldCodec):
    """Codec of `requantizes`, `relu`, `table` and the rounding. The address of the table is in a register: a decoded
    command has 0 until `resolved` finds it. `states_constant`: commands without requantization state constant
    parameters.
    """

    def __init__(self, *, states_constant: bool = False) -> None:
        self._states_constant = states_constant

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        if not instruction.requantizes:
            if self._states_constant:
                fields["opd5_const"] = 1
            return
        fields |= {"rq": 1, "relu": int(instruction.relu), "opd5_const": int(instruction.table is None)}
        fields["opd2_n_str"] = rounding_code(instruction.rounding)

    def read(self, draft: Draft, fields: Fields) -> None:
        found = draft.__dict__
        found["requantizes"] = bool(fields["rq"])
        if not found["requantizes"]:
            return
        found["relu"], found["rounding"] = bool(fields["relu"]), rounding_of(fields["opd2_n_str"])
        found["table"] = None if fields["opd5_const"] else 0


def one_record(multiplier: int, right_shift: int, zero_point: int) -> WriteRegisters:
    """The command that writes parameters for all channels."""
    return WriteRegisters(values=((RECORDS, multiplier), (SHIFT, -right_shift), (RESULT_POINT, zero_point)))


def check(mnemonic: str, target: Target, result: DType) -> None:
    """Raise IllegalCommand where a command cannot requantize."""
    if not target.has_registers:
        raise IllegalCommand(f"{mnemonic}: this chip requantizes by a command of its own; use it")
    if result.is_float or result.bytes > 2:
        raise IllegalCommand(f"{mnemonic}: requantized to {result}; use integers of 8 or 16 bits")


def registers_read(command: Requantizing) -> list[Region]:
    """The registers that an integer product reads, and the table that one of them names."""
    found = [register_region(KERNEL_POINT)] if command.reads_kernel_point else []
    if not command.requantizes:
        return found
    found.append(register_region(RECORDS))
    if command.table is None:
        return [*found, register_region(SHIFT), register_region(RESULT_POINT)]
    return [*found, _records(command.table).region((1, command.channels, 1, 2), command.target)]


def _records(address: int) -> Operand:
    return Operand(address, DType.INT32, Layout.COMPACT)


def fused(machine: Machine, command: Requantizing, total: Array, result: DType) -> Array:
    """Sums as the command stores them, in its result's type."""
    words = _words(machine, command)
    multiplier, shift, point = (word.astype(np.int64) for word in words)
    total = np.maximum(total, 0) if command.relu else total
    return requantize(total, multiplier, -shift, point, command.rounding, result.numpy)


def _words(machine: Machine, command: Requantizing) -> Sequence[Array]:
    if command.table is None:
        found = (machine.register(number) & 0xFFFFFFFF for number in (RECORDS, SHIFT, RESULT_POINT))
        one, shift, point = (np.array(word, np.uint32).view(np.int32) for word in found)
        return one, shift.astype(_SIGNED_BYTE), point.astype(_SIGNED_HALF)
    records = machine.load(_records(machine.register(RECORDS) & 0xFFFFFFFF), (1, command.channels, 1, 2))
    first, second = (np.ascontiguousarray(records[..., word : word + 1]) for word in range(2))
    return first, second.astype(_SIGNED_BYTE), second >> 16
