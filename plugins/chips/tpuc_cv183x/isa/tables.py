"""The bit layouts of both descriptors, read from `data/tiu.json` and `data/tdma.json`, and their storage form."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from tpuc.api import CorruptFile, Engine, IllegalCommand

Fields = Mapping[str, int]
"""Raw field values by their name in the register description."""

CHUNK_BYTES = 16


@dataclass(frozen=True)
class DescriptorTable:
    """One descriptor form: bit offset and width of every field, and the word of their reset values."""

    engine: Engine
    length_bytes: int
    fields: dict[str, tuple[int, int]]
    reset_word: int

    def pack(self, fields: Fields) -> bytes:
        """The logical form; fields not given keep their reset value. Negative values are two's complement."""
        word = self.reset_word
        for name, value in fields.items():
            offset, width = self.fields[name]
            mask = (1 << width) - 1
            if not -(mask + 1) // 2 <= value <= mask:
                unit = "compute" if self.engine is Engine.COMPUTE else "DMA"
                raise IllegalCommand(
                    f"{unit} descriptor: {name} has {width} bits, {value} does not fit; use at most {mask}"
                )
            word = word & ~(mask << offset) | (value & mask) << offset
        return word.to_bytes(self.length_bytes, "little")

    def unpack(self, data: bytes) -> dict[str, int]:
        """Every field of a logical descriptor."""
        if len(data) != self.length_bytes:
            raise CorruptFile(f"descriptor of {len(data)} bytes: it must have {self.length_bytes}; the file is damaged")
        word = int.from_bytes(data, "little")
        return {name: word >> offset & ((1 << width) - 1) for name, (offset, width) in self.fields.items()}


@functools.cache
def load_table(engine: Engine) -> DescriptorTable:
    """The table of an engine."""
    file = "tiu.json" if engine is Engine.COMPUTE else "tdma.json"
    document = json.loads(resources.files("tpuc_cv183x.isa").joinpath("data", file).read_text(encoding="utf-8"))
    rows: list[tuple[str, int, int, int]] = [tuple(row) for row in document["fields"]]
    return DescriptorTable(
        engine,
        int(document["bytes"]),
        {name: (bit, width) for name, bit, width, _ in rows},
        sum(reset << bit for _, bit, _, reset in rows),
    )


def to_storage(logical: bytes) -> bytes:
    """A compute descriptor as a dmabuf holds it: chunk numbers in, first and last chunk exchanged."""
    chunks = [bytearray(logical[at : at + CHUNK_BYTES]) for at in range(0, len(logical), CHUNK_BYTES)]
    for number, chunk in enumerate(chunks):
        chunk[-1] |= number << 4
    return b"".join([chunks[-1], *chunks[1:-1], chunks[0]])


def from_storage(stored: bytes) -> bytes:
    """The logical form of a stored compute descriptor."""
    chunks = [bytearray(stored[at : at + CHUNK_BYTES]) for at in range(0, len(stored), CHUNK_BYTES)]
    chunks[0], chunks[-1] = chunks[-1], chunks[0]
    for number, chunk in enumerate(chunks):
        if chunk[-1] >> 4 != number:
            raise CorruptFile(f"compute descriptor: chunk {number} is numbered {chunk[-1] >> 4}; the file is damaged")
        chunk[-1] &= 15
    return b"".join(chunks)
