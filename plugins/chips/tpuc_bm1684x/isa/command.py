"""The base of all instruction classes: encoding by the tables, decoding without loss, describing."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from tpuc.api import Engine, IllegalCommand, Instruction, Region

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
from tpuc_bm1684x.isa.tables import CommandTable, Fields, load_tables
from tpuc_bm1684x.isa.types import (
    Layout,
    Operand,
    Scalar,
    Shape4,
    Source,
    dtype_of,
    format_address,
    format_dma,
    layout_of,
)

HEADER = frozenset({"cmd_short", "cmd_id", "cmd_id_dep", "cmd_id_en", "tsk_typ", "cmd_type"})
_HARMLESS_PREFIXES = ("rsvd", "reserved", "pwr_step", "intr_en", "cmd_id_en")


@dataclass(frozen=True, kw_only=True)
class Bm1684xInstruction(Instruction):
    """One command. A subclass maps its own fields to those of the register description and back.

    `leftover` holds raw fields of a decoded command that no other field stands for, so that encoding gives the same
    bytes; a leftover outside `harmless` would change the meaning, and execution refuses it. `long_form` chooses the
    1024-bit form of a compute command.
    """

    table_name: ClassVar[str]
    """The name in the tables; compute commands that have a long form are listed by their short one."""
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Fields that this command ignores although the register description has them."""

    leftover: tuple[tuple[str, int], ...] = ()
    long_form: bool = False

    @abstractmethod
    def fields(self) -> dict[str, int]:
        """All raw fields except header fields (ids, short flag, opcode)."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        """The instruction for raw fields; raises IllegalCommand for codes that do not exist."""

    @abstractmethod
    def mnemonic(self) -> str:
        """The operation's short name in a disassembly."""

    @property
    def bit_layout(self) -> CommandTable:
        """The bit layout in use."""
        return load_tables()[self.table_name[1:] if self.long_form else self.table_name]

    def encode(self, number: int, wait: int) -> bytes:
        table = self.bit_layout
        header = {"cmd_short": table.short or 0, "cmd_id": number, "cmd_id_dep": wait, "cmd_id_en": 1}
        if self.long_form:
            header["tsk_lane_num"] = (1 << 64) - 1
        if table.opcode is not None:
            header[table.main] = table.opcode
        return table.pack({**header, **self.fields(), **dict(self.leftover)})

    def check(self) -> None:
        """Raise IllegalCommand when the command cannot be executed as it stands."""
        for name, value in self.leftover:
            if name not in self.harmless and not name.startswith(_HARMLESS_PREFIXES):
                raise IllegalCommand(
                    f"{self.mnemonic()}: {name} = {value} has no known meaning here; leave it at its default"
                )
        for value in self.__dict__.values():
            if isinstance(value, Operand):
                check_alignment(self.mnemonic(), value)
        for region in (*self.reads(), *self.writes()):
            check_region(self.mnemonic(), region)

    def describe(self) -> str:
        parts = [f"{name}={_show(value)}" for name, value in self.shown_fields()]
        return " ".join([self.mnemonic(), *parts])

    def shown_value(self, name: str, value: Any) -> Any:
        """What stands for one field in the disassembly: plain addresses look like those of operands."""
        plain = name in ("result", "source", "table") and isinstance(value, int)
        return f"[{format_address(value)}]" if plain else value

    def shown_fields(self) -> list[tuple[str, Any]]:
        """Name and value of every field that differs from its default, in order of declaration."""
        shown: list[tuple[str, Any]] = []
        for field in dataclasses.fields(self):
            value = self.__dict__[field.name]
            if value != field.default and field.name not in ("leftover", "operation"):
                shown.append((field.name, self.shown_value(field.name, value)))
        return sorted(shown, key=lambda item: item[0] == "long_form") + list(self.leftover)


def check_alignment(mnemonic: str, operand: Operand) -> None:
    """Refuse addresses that are no multiple of the element, or of the vector for the aligned layout."""
    unit = EU_BYTES if operand.layout == Layout.ALIGNED else operand.dtype.bytes
    if operand.address % unit:
        raise IllegalCommand(f"{mnemonic}: operand {operand} must start at a multiple of {unit} bytes; move it")


def check_region(mnemonic: str, region: Region) -> None:
    """Refuse regions outside their memory."""
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


def _show(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return "x".join(str(part) for part in cast("tuple[object, ...]", value))
        case float():
            return f"{value:.9g}"
        case _:
            return getattr(value, "name", str(value)).lower() if hasattr(value, "name") else str(value)


class FieldReader:
    """Raw fields with 0 for missing names, and the usual groups of fields."""

    def __init__(self, fields: Fields) -> None:
        self.raw = fields

    def __getitem__(self, name: str) -> int:
        return self.raw.get(name, 0)

    def shape(self, prefix: str) -> Shape4:
        """`prefix`_n, _c, _h, _w."""
        return (self[f"{prefix}_n"], self[f"{prefix}_c"], self[f"{prefix}_h"], self[f"{prefix}_w"])

    def strides(self, prefix: str) -> Shape4:
        """`prefix`_n_str, ..."""
        return (self[f"{prefix}_n_str"], self[f"{prefix}_c_str"], self[f"{prefix}_h_str"], self[f"{prefix}_w_str"])

    def operand(self, prefix: str, prec: int, sign: bool | int) -> Operand:
        """The tensor `prefix` with its layout code and strides."""
        layout = layout_of(self[f"{prefix}_str"], self.strides(prefix))
        return Operand(self[f"{prefix}_addr"], dtype_of(prec, sign), layout)

    def plain(self, prefix: str, prec: int, sign: bool | int, layout: Layout = Layout.ALIGNED) -> Operand:
        """The tensor `prefix` whose layout the command fixes."""
        return Operand(self[f"{prefix}_addr"], dtype_of(prec, sign), layout)

    def source(self, prefix: str, prec: int, sign: bool | int, layout: Layout | None = None) -> Source:
        """A tensor, or an immediate when `prefix`_const is set; `layout` where the command fixes it."""
        if self[f"{prefix}_const"]:
            return Scalar(self[f"{prefix}_addr"], dtype_of(prec, sign))
        return self.operand(prefix, prec, sign) if layout is None else self.plain(prefix, prec, sign, layout)


def shape_fields(prefix: str, shape: Sequence[int], names: str = "nchw") -> dict[str, int]:
    """Fields `prefix`_n ... from a shape."""
    return {f"{prefix}_{name}": size for name, size in zip(names, shape, strict=True)}


def source_fields(prefix: str, source: Source | None, *, layout: bool = False) -> dict[str, int]:
    """Address or immediate of an operand; with `layout` its layout code and strides too. None is an immediate 0."""
    match source:
        case None:
            return {f"{prefix}_const": 1}
        case Scalar(bits=bits):
            return {f"{prefix}_const": 1, f"{prefix}_addr": bits}
        case Operand():
            fields = {f"{prefix}_addr": source.address}
            if layout:
                fields |= layout_fields(prefix, source)
            return fields


def layout_fields(prefix: str, operand: Operand) -> dict[str, int]:
    """Layout code and, when explicit, strides."""
    fields = {f"{prefix}_str": operand.layout_code}
    if not isinstance(operand.layout, Layout):
        fields |= {f"{prefix}_{name}_str": step for name, step in zip("nchw", operand.layout, strict=True)}
    return fields


def drop_header(fields: Fields) -> dict[str, int]:
    """`fields` without what encode() writes itself."""
    return {name: value for name, value in fields.items() if name not in HEADER}


class ComputeInstruction(Bm1684xInstruction):
    """Executed by the TIU."""

    engine = Engine.COMPUTE


class DmaInstruction(Bm1684xInstruction):
    """Executed by the GDMA engine."""

    engine = Engine.DMA

    def shown_value(self, name: str, value: Any) -> Any:
        if name in ("source", "destination"):
            return format_dma(value)
        return f"{value:#x}" if name == "mask" else value
