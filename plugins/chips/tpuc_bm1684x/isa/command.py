"""Base class of all instructions: table-driven encoding, lossless decoding, description."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from tpuc.api import Engine, IllegalCommand, Region
from tpuc.api.encoding import EncodedInstruction

from tpuc_bm1684x.isa.tables import CommandTable
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import Layout, Operand

HEADER = frozenset({"cmd_short", "cmd_id", "cmd_id_dep", "cmd_id_en", "tsk_typ", "cmd_type"})
_HARMLESS_PREFIXES = ("rsvd", "reserved", "pwr_step", "intr_en", "cmd_id_en")
REGISTERS = "registers"
"""The memory space of parameters that are not in the fields of a command."""
REGISTER_BYTES = 4
KERNEL_POINT, DUMMY_REGISTER = 5, 127
"""Numbers of registers: the zero point of a convolution's filter, and one that nothing reads."""
_ALL_LANES = (1 << 64) - 1
_IDENTIFIED = {"cmd_id_en": 1}
_ANONYMOUS: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Bm1684xInstruction(EncodedInstruction):
    """One command. `long_form` selects the 1024-bit form of a compute command. Assembler and decoder set `target`."""

    table_name: ClassVar[str]
    """Its name in the tables; compute commands with a long form use the name of their short form."""

    hidden = frozenset({"leftover", "operation", "target"})

    long_form: bool = False
    target: Target = BM1684X

    @property
    def bit_layout(self) -> CommandTable:
        """The bit layout of the selected form."""
        return self.target.layouts[self.table_name[1:] if self.long_form else self.table_name]

    def on(self, target: Target) -> Self:
        """The same command of a chip of the family."""
        return self if self.target is target else replace(self, target=target)

    def header(self) -> dict[str, int]:
        """Fields common to all commands of a form, except ids and opcodes."""
        enabled = _IDENTIFIED if self.target.has_ids else _ANONYMOUS
        return enabled | {"tsk_lane_num": _ALL_LANES} if self.long_form else {**enabled}

    def encode(self, number: int, wait: int) -> bytes:
        table = self.bit_layout
        fields = {**self.header(), "cmd_short": table.short or 0, "cmd_id_dep": wait}
        if self.target.has_ids:
            fields["cmd_id"] = number
        if table.opcode is not None:
            fields[table.main] = table.opcode
        self.encoding.write(self, fields)
        fields.update(self.leftover)
        return table.pack(fields)

    def ignores(self, name: str) -> bool:
        return name.startswith(_HARMLESS_PREFIXES) or super().ignores(name)

    def check(self) -> None:
        super().check()
        for value in self.__dict__.values():
            if isinstance(value, Operand):
                check_alignment(self.mnemonic(), value, self.target)

    def check_region(self, region: Region) -> None:
        check_region(self.mnemonic(), region, self.target)

    def shown_value(self, name: str, value: Any) -> Any:
        """Format plain addresses like those of operands."""
        if isinstance(value, Operand):
            return value.text(self.target)
        plain = name in ("result", "source", "table") and isinstance(value, int)
        return f"[{self.target.format_address(value)}]" if plain else value

    def shown_fields(self) -> list[tuple[str, Any]]:
        return sorted(super().shown_fields(), key=lambda item: item[0] == "long_form")

    def shown_leftover(self) -> tuple[tuple[str, int], ...]:
        return self.leftover


def register_region(number: int) -> Region:
    """The region of a register."""
    return Region(REGISTERS, number * REGISTER_BYTES, (number + 1) * REGISTER_BYTES)


def check_alignment(mnemonic: str, operand: Operand, target: Target) -> None:
    """Raise IllegalCommand unless the address is a multiple of the element size, or of the vector size in the aligned
    layout.
    """
    unit = target.eu_bytes if operand.layout == Layout.ALIGNED else operand.dtype.bytes
    if operand.address % unit:
        raise IllegalCommand(
            f"{mnemonic}: operand {operand.text(target)} must start at a multiple of {unit} bytes; move it"
        )


def check_region(mnemonic: str, region: Region, target: Target) -> None:
    """Raise IllegalCommand for regions outside their memory."""
    low, high = {
        "lmem": (0, target.lane_bytes),
        "smem": (0, target.smem_bytes),
        "l2": (target.l2_base, target.l2_base + target.l2_bytes),
        "ddr": (target.ddr_base, target.ddr_end),
        REGISTERS: (0, REGISTER_BYTES * (DUMMY_REGISTER + 1)),
    }[region.space]
    if not low <= region.start <= region.end <= high or not 0 <= region.first_lane < region.end_lane <= target.lanes:
        raise IllegalCommand(
            f"{mnemonic}: bytes {region.start:#x}..{region.end:#x} of lanes {region.first_lane}..{region.end_lane - 1} "
            f"are outside {region.space} ({low:#x}..{high:#x}); move or split the tensor"
        )


class ComputeInstruction(Bm1684xInstruction):
    """A command of the TIU."""

    engine = Engine.COMPUTE


class DmaInstruction(Bm1684xInstruction):
    """A command of the GDMA engine."""

    engine = Engine.DMA

    def shown_value(self, name: str, value: Any) -> Any:
        if name in ("source", "destination"):
            return self.target.format_dma(value)
        return f"{value:#x}" if name == "mask" else value
