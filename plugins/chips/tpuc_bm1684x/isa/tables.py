"""The bit layouts of all commands, read from `data/tiu.json` and `data/gdma.json`, and packing by them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tpuc.api import Engine, IllegalCommand

Fields = Mapping[str, int]
"""Raw field values by their name in the register description; a missing name is 0."""


@dataclass(frozen=True)
class CommandTable:
    """One command form: where each field lies. `main` and `sub` name the two opcode fields."""

    name: str
    engine: Engine
    length_bytes: int
    short: int | None
    opcode: int | None
    suboperations: dict[int, str]
    fields: dict[str, tuple[int, int]]

    @property
    def main(self) -> str:
        """The name of the opcode field."""
        return "tsk_typ" if self.engine is Engine.COMPUTE else "cmd_type"

    @property
    def sub(self) -> str:
        """The name of the sub-opcode field."""
        return "tsk_eu_typ" if self.engine is Engine.COMPUTE else "cmd_special_function"

    def pack(self, fields: Fields) -> bytes:
        """The command bytes; raises IllegalCommand when a value does not fit its field."""
        word = 0
        for name, value in fields.items():
            if name not in self.fields:
                if value:
                    raise IllegalCommand(
                        f"{self.name}: it has no field {name!r}, which would be {value}; use another form"
                    )
                continue
            offset, width = self.fields[name]
            if value >> width:
                raise IllegalCommand(
                    f"{self.name}: {name} has {width} bits, {value} does not fit; use at most {(1 << width) - 1}"
                )
            word |= value << offset
        return word.to_bytes(self.length_bytes, "little")

    def unpack(self, data: bytes) -> dict[str, int]:
        """Every non-zero field of one command."""
        word = int.from_bytes(data, "little")
        return {
            name: value
            for name, (offset, width) in self.fields.items()
            if (value := word >> offset & ((1 << width) - 1))
        }


def _parse_fields(text: str) -> dict[str, tuple[int, int]]:
    fields: dict[str, tuple[int, int]] = {}
    for item in text.split():
        name, place = item.split("@")
        offset, width = place.split(":")
        fields[name] = (int(offset), int(width))
    return fields


@functools.cache
def load_tables() -> dict[str, CommandTable]:
    """All command forms by name, `sCONV` (short) and `CONV` (long) being two."""
    tables: dict[str, CommandTable] = {}
    for engine, file in ((Engine.COMPUTE, "tiu.json"), (Engine.DMA, "gdma.json")):
        text = resources.files("tpuc_bm1684x.isa").joinpath("data", file).read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(text)
        for name, entry in document["commands"].items():
            layout = document["long"] if entry["fields"] == "long" else entry["fields"]
            tables[name] = CommandTable(
                name,
                engine,
                entry["bytes"],
                entry["short"],
                entry["opcode"],
                {int(code): text for code, text in entry["suboperations"].items()},
                _parse_fields(layout),
            )
    return tables


@functools.cache
def _by_opcode() -> dict[tuple[Engine, int, int, int], CommandTable]:
    found: dict[tuple[Engine, int, int, int], CommandTable] = {}
    for table in load_tables().values():
        if table.opcode is None:
            continue
        for short in (0, 1) if table.short is None else (table.short,):
            for code in table.suboperations:
                found[table.engine, table.opcode, short, code] = table
    return found


def identify(engine: Engine, head: int) -> CommandTable:
    """The table of the command whose first 16 bytes, as a little-endian number, are `head`."""
    if engine is Engine.COMPUTE:
        key = (engine, head >> 41 & 15, head & 1, head >> 45 & 31)
    else:
        key = (engine, head >> 32 & 15, head >> 3 & 1, head >> 36 & 7)
    table = _by_opcode().get(key)
    if table is None:
        unit = "compute" if engine is Engine.COMPUTE else "DMA"
        form = "short" if key[2] else "long"
        raise IllegalCommand(f"{unit} command: no operation {key[1]}.{key[3]} in {form} form; the stream is damaged")
    return table
