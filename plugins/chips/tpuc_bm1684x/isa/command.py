"""Base class of all instructions: table-driven encoding, lossless decoding, description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpuc.api import Engine, IllegalCommand, Region
from tpuc.api.encoding import EncodedInstruction

from tpuc_bm1684x.isa.geometry import (
    DDR_BASE,
    DDR_END,
    EU_BYTES,
    L2_BASE,
    L2_BYTES,
    LANE_BYTES,
    LANES,
    SMEM_BYTES,
)
from tpuc_bm1684x.isa.tables import CommandTable, load_tables
from tpuc_bm1684x.isa.types import Layout, Operand, format_address, format_dma

HEADER = frozenset({"cmd_short", "cmd_id", "cmd_id_dep", "cmd_id_en", "tsk_typ", "cmd_type"})
_HARMLESS_PREFIXES = ("rsvd", "reserved", "pwr_step", "intr_en", "cmd_id_en")
_ALL_LANES = (1 << LANES) - 1


@dataclass(frozen=True, kw_only=True)
class Bm1684xInstruction(EncodedInstruction):
    """One command. `long_form` selects the 1024-bit form of a compute command."""

    table_name: ClassVar[str]
    """Its name in the tables; compute commands with a long form use the name of their short form."""

    long_form: bool = False

    @property
    def bit_layout(self) -> CommandTable:
        """The bit layout of the selected form."""
        return load_tables()[self.table_name[1:] if self.long_form else self.table_name]

    def header(self) -> dict[str, int]:
        """Fields common to all commands of a form, except ids and opcodes."""
        enabled = {"cmd_id_en": 1}
        return enabled | {"tsk_lane_num": _ALL_LANES} if self.long_form else enabled

    def encode(self, number: int, wait: int) -> bytes:
        table = self.bit_layout
        fields = {**self.header(), "cmd_short": table.short or 0, "cmd_id": number, "cmd_id_dep": wait}
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
                check_alignment(self.mnemonic(), value)

    def check_region(self, region: Region) -> None:
        check_region(self.mnemonic(), region)

    def shown_value(self, name: str, value: Any) -> Any:
        """Format plain addresses like those of operands."""
        plain = name in ("result", "source", "table") and isinstance(value, int)
        return f"[{format_address(value)}]" if plain else value

    def shown_fields(self) -> list[tuple[str, Any]]:
        return sorted(super().shown_fields(), key=lambda item: item[0] == "long_form")

    def shown_leftover(self) -> tuple[tuple[str, int], ...]:
        return self.leftover


def check_alignment(mnemonic: str, operand: Operand) -> None:
    """Raise IllegalCommand unless the address is a multiple of the element size, or of the vector size in the aligned
    layout.
    """
    unit = EU_BYTES if operand.layout == Layout.ALIGNED else operand.dtype.bytes
    if operand.address % unit:
        raise IllegalCommand(f"{mnemonic}: operand {operand} must start at a multiple of {unit} bytes; move it")


def check_region(mnemonic: str, region: Region) -> None:
    """Raise IllegalCommand for regions outside their memory."""
    low, high = {
        "lmem": (0, LANE_BYTES),
        "smem": (0, SMEM_BYTES),
        "l2": (L2_BASE, L2_BASE + L2_BYTES),
        "ddr": (DDR_BASE, DDR_END),
    }[region.space]
    if not low <= region.start <= region.end <= high or not 0 <= region.first_lane < region.end_lane <= LANES:
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
            return format_dma(value)
        return f"{value:#x}" if name == "mask" else value
