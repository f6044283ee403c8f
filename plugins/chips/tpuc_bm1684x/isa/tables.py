"""Load the bit layouts of a chip's commands from `data/tiu.json` and `data/gdma.json`, and find that of a command."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tpuc.api import Engine, IllegalCommand
from tpuc.api.encoding import BitLayout


@dataclass(frozen=True, kw_only=True)
class CommandTable(BitLayout):
    """Bit layout of one command form. `main` and `sub` name the two opcode fields."""

    engine: Engine
    short: int | None
    opcode: int | None
    suboperations: dict[int, str]

    @property
    def main(self) -> str:
        """The name of the opcode field."""
        return "tsk_typ" if self.engine is Engine.COMPUTE else "cmd_type"

    @property
    def sub(self) -> str:
        """The name of the sub-opcode field."""
        return "tsk_eu_typ" if self.engine is Engine.COMPUTE else "cmd_special_function"


def _parse_fields(text: str) -> dict[str, tuple[int, int]]:
    fields: dict[str, tuple[int, int]] = {}
    for item in text.split():
        name, place = item.split("@")
        offset, width = place.split(":")
        fields[name] = (int(offset), int(width))
    return fields


def load_tables(package: str = "tpuc_bm1684x.isa") -> dict[str, CommandTable]:
    """All command forms of a package by name; `sCONV` (short) and `CONV` (long) are separate forms."""
    return _tables(package)


@functools.cache
def _tables(package: str) -> dict[str, CommandTable]:
    tables: dict[str, CommandTable] = {}
    for engine, file in ((Engine.COMPUTE, "tiu.json"), (Engine.DMA, "gdma.json")):
        text = resources.files(package).joinpath("data", file).read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(text)
        for name, entry in document["commands"].items():
            layout = document["long"] if entry["fields"] == "long" else entry["fields"]
            tables[name] = CommandTable(
                name=name,
                length_bytes=entry["bytes"],
                fields=_parse_fields(layout),
                engine=engine,
                short=entry["short"],
                opcode=entry["opcode"],
                suboperations={int(code): text for code, text in entry["suboperations"].items()},
            )
    return tables


@functools.cache
def _by_opcode(package: str) -> dict[tuple[Engine, int, int, int], CommandTable]:
    found: dict[tuple[Engine, int, int, int], CommandTable] = {}
    for table in load_tables(package).values():
        if table.opcode is None:
            continue
        for short in (0, 1) if table.short is None else (table.short,):
            for code in table.suboperations:
                found[table.engine, table.opcode, short, code] = table
    return found


@functools.cache
def _sub_masks(package: str) -> dict[int, int]:
    """The widths of sub-opcodes as masks, by the opcode of compute commands."""
    tables = (table for table in load_tables(package).values() if table.engine is Engine.COMPUTE)
    return {table.opcode: (1 << table.fields[table.sub][1]) - 1 for table in tables if table.opcode is not None}


def identify(engine: Engine, head: int, package: str = "tpuc_bm1684x.isa") -> CommandTable:
    """The layout of a command, given its first 16 bytes as a little-endian number; raises IllegalCommand for an unknown
    opcode.
    """
    if engine is Engine.COMPUTE:
        opcode = head >> 41 & 15
        key = (engine, opcode, head & 1, head >> 45 & _sub_masks(package).get(opcode, 31))
    else:
        key = (engine, head >> 32 & 15, head >> 3 & 1, head >> 36 & 7)
    table = _by_opcode(package).get(key)
    if table is None:
        unit = "compute" if engine is Engine.COMPUTE else "DMA"
        form = "short" if key[2] else "long"
        raise IllegalCommand(f"{unit} command: no operation {key[1]}.{key[3]} in {form} form; the stream is damaged")
    return table
