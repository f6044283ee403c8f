"""End commands, messages between cores, and commands that the tables list but no class models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import Engine, IllegalCommand, Instruction, Region
from tpuc.api.encoding import Constant, Draft, Encoding, FieldCodec, Fields

from tpuc_bm1684x.isa.command import DUMMY_REGISTER, HEADER, ComputeInstruction, DmaInstruction, register_region
from tpuc_bm1684x.isa.tables import CommandTable
from tpuc_bm1684x.isa.target import BM1684X, Target

_WORD = 0xFFFFFFFF
MOST_IDS = 128


class _Registers(FieldCodec):
    """Codec of up to three registers with their values; fields that are left write the dummy."""

    def write(self, instruction: WriteRegisters, fields: dict[str, int]) -> None:
        pairs = [*instruction.values, *[(DUMMY_REGISTER, 0)] * (3 - len(instruction.values))]
        for place, (number, _) in enumerate(pairs):
            fields[f"reg_idx{place}"] = number
        first, second, third = (value & _WORD for _, value in pairs)
        fields["imm0"], fields["imm1"] = first, second | third << 32

    def read(self, draft: Draft, fields: Fields) -> None:
        words = (fields["imm0"], fields["imm1"] & _WORD, fields["imm1"] >> 32)
        pairs = [(fields[f"reg_idx{place}"], word) for place, word in enumerate(words)]
        while pairs and pairs[-1] == (DUMMY_REGISTER, 0):
            pairs.pop()
        draft.__dict__["values"] = tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class WriteRegisters(ComputeInstruction):
    """Write `values`, pairs of a register and a 32-bit number, which later commands use (SYS_TR_ACC)."""

    table_name = "SYS_TR_ACC"
    stem = "sys.registers"
    encoding = Encoding(_Registers())

    values: tuple[tuple[int, int], ...]

    def encode(self, number: int, wait: int) -> bytes:
        """Without the wait, which it needs for nothing and the next command states again."""
        return super().encode(number, 0)

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return [register_region(number) for number, _ in self.values if number != DUMMY_REGISTER]

    def execute(self, machine: Any) -> None:
        machine.registers.update({number: value & _WORD for number, value in self.values})


class _Idle:
    """Base of commands that change nothing in memory."""

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return []

    def execute(self, machine: Any) -> None:
        del machine


@dataclass(frozen=True, kw_only=True)
class EndCompute(_Idle, ComputeInstruction):
    """End of the compute stream (SYS, sub-opcode 31)."""

    table_name = "SYSID"
    stem = "sys.end"
    encoding = Encoding(Constant(tsk_eu_typ=31, cmd_id_en=0))


@dataclass(frozen=True, kw_only=True)
class EndDma(_Idle, DmaInstruction):
    """End of the DMA stream (DMA_sys)."""

    table_name = "sDMA_sys"
    stem = "dma.end"
    encoding = Encoding()


@dataclass(frozen=True)
class _MessageFields(FieldCodec):
    """Codec of a message: the field with id and count, where the count begins, and the codes of sending and waiting."""

    name: str
    count_bit: int
    codes: tuple[int, int]

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields[self.name] = instruction.identifier | instruction.count << self.count_bit
        fields[instruction.bit_layout.sub] = self.codes[0 if instruction.is_send else 1]

    def read(self, draft: Draft, fields: Fields) -> None:
        value = fields[self.name]
        draft.__dict__["identifier"] = value & MOST_IDS - 1
        draft.__dict__["count"] = value >> self.count_bit & MOST_IDS - 1
        draft.__dict__["is_send"] = fields[draft.bit_layout.sub] == self.codes[0]


@dataclass(frozen=True, kw_only=True)
class _Message(_Idle):
    """Message `identifier` is sent once, or awaited until it has been sent `count` times."""

    identifier: int
    count: int
    is_send: bool


@dataclass(frozen=True, kw_only=True)
class ComputeMessage(_Message, ComputeInstruction):
    """Send a message to all cores, or wait until it has been sent `count` times (SYS, sub-opcodes 8 and 9)."""

    table_name = "SYSID"
    stem = "sys.message"
    encoding = Encoding(_MessageFields("imm", 16, (8, 9)))


@dataclass(frozen=True, kw_only=True)
class DmaMessage(_Message, DmaInstruction):
    """The same for the DMA engine (DMA_sys, 3 and 4)."""

    table_name = "sDMA_sys"
    stem = "dma.message"
    encoding = Encoding(_MessageFields("constant_value", 8, (3, 4)))


@dataclass(frozen=True)
class RawCommand(Instruction):
    """Any command of the tables as raw fields. It can be encoded, decoded and printed, but not executed.

    `problem` tells why no other class represents it.
    """

    table_name: str
    raw: tuple[tuple[str, int], ...]
    problem: str = ""
    target: Target = BM1684X

    @property
    def bit_layout(self) -> CommandTable:
        """The bit layout of the command."""
        return self.target.layouts[self.table_name]

    @staticmethod
    def of(table: CommandTable, fields: Fields, problem: str = "", target: Target = BM1684X) -> RawCommand:
        """Create from unpacked fields, without ids."""
        kept = {name: value for name, value in fields.items() if name not in HEADER}
        kept |= {name: fields.get(name, 0) for name in (table.main, "cmd_short", "cmd_id_en")}
        known = {name: value for name, value in kept.items() if value and name in table.fields}
        kind = RawCompute if table.engine is Engine.COMPUTE else RawDma
        return kind(table.name, tuple(known.items()), problem, target)

    def encode(self, number: int, wait: int) -> bytes:
        ids = {"cmd_id": number, "cmd_id_dep": wait}
        known = {name: value for name, value in ids.items() if name in self.bit_layout.fields}
        return self.bit_layout.pack({**dict(self.raw), **known})

    def mnemonic(self) -> str:
        """Its name in the tables."""
        code = dict(self.raw).get(self.bit_layout.sub, 0)
        return f"{self.table_name}.{self.bit_layout.suboperations.get(code, str(code))}"

    def check(self) -> None:
        """Always raises IllegalCommand: its semantics are unknown."""
        reason = self.problem or "the simulator does not support this command"
        raise IllegalCommand(f"{self.mnemonic()}: {reason}")

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return []

    def execute(self, machine: Any) -> None:
        del machine
        self.check()

    def describe(self) -> str:
        hidden = {"cmd_short", "cmd_id_en", self.bit_layout.main, self.bit_layout.sub}
        shown = " ".join(f"{name}={value:#x}" for name, value in self.raw if name not in hidden)
        return f"{self.mnemonic()} {shown}".rstrip()


class RawCompute(RawCommand):
    """A command of the compute stream that no class models."""

    engine = Engine.COMPUTE


class RawDma(RawCommand):
    """A command of the DMA stream that no class models."""

    engine = Engine.DMA
