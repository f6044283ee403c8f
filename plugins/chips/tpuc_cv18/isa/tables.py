"""Load the bit layouts of both descriptors from a chip's `data/*.json`, and convert to and from the storage form."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib import resources

from tpuc.api import CorruptFile, Engine, IllegalCommand
from tpuc.api.encoding import BitLayout, EncodedInstruction

CHUNK_BYTES = 16
ID_LIMIT = 0xFFFF
"""Largest command id: both engines count with 16 bits."""
NUMBER = {Engine.COMPUTE: "cmd_id_tpu", Engine.DMA: "cmd_id"}
WAIT = {Engine.COMPUTE: "cmd_id_gdma", Engine.DMA: "wait_id_tpu"}
LAYER = {Engine.COMPUTE: "layer_info", Engine.DMA: "layer_ID"}
ENABLE: dict[Engine, dict[str, int]] = {
    Engine.COMPUTE: {"cmd_en": 1, "cmd_id_en": 1},
    Engine.DMA: {"vld": 1, "bar_en": 1},
}
END: dict[Engine, dict[str, int]] = {
    Engine.COMPUTE: {"cmd_end": 1, "cmd_intr_en": 1},
    Engine.DMA: {"eod": 1, "intp_en": 1},
}
"""Fields set on the last descriptor of a segment, by the runtime or in a dmabuf."""


Layouts = Callable[[Engine], BitLayout]


def read_layouts(package: str) -> Layouts:
    """The bit layouts in the folder `data` of a package, read on demand."""

    @functools.cache
    def layouts(engine: Engine) -> BitLayout:
        file = "tiu.json" if engine is Engine.COMPUTE else "tdma.json"
        document = json.loads(resources.files(package).joinpath("data", file).read_text(encoding="utf-8"))
        rows: list[tuple[str, int, int, int]] = [tuple(row) for row in document["fields"]]
        return BitLayout(
            f"{engine.label} descriptor",
            int(document["bytes"]),
            {name: (bit, width) for name, bit, width, _ in rows},
            {name: reset for name, _, _, reset in rows if reset},
        )

    return layouts


def encode(instruction: EncodedInstruction, number: int, wait: int, layouts: Layouts) -> bytes:
    """Encode a descriptor in logical form; raises IllegalCommand for ids beyond 16 bits."""
    if not 0 < number <= ID_LIMIT or not 0 <= wait <= ID_LIMIT:
        raise IllegalCommand(
            f"{instruction.mnemonic()}: id {number} waiting for {wait}: ids have 16 bits; split the program into "
            "segments"
        )
    engine = instruction.engine
    ids = {NUMBER[engine]: number, WAIT[engine]: wait}
    fields = {**ENABLE[engine], **ids, **instruction.fields(), **dict(instruction.leftover)}
    return layouts(engine).pack(fields)


def to_storage(logical: bytes) -> bytes:
    """Convert a compute descriptor to the form in a dmabuf: number its chunks, and swap the first and last chunk."""
    chunks = [bytearray(logical[at : at + CHUNK_BYTES]) for at in range(0, len(logical), CHUNK_BYTES)]
    for number, chunk in enumerate(chunks):
        chunk[-1] |= number << 4
    return b"".join([chunks[-1], *chunks[1:-1], chunks[0]])


def from_storage(stored: bytes, layout: BitLayout) -> bytes:
    """Convert a stored compute descriptor to its logical form, in which the chunk numbers have their reset values;
    raises CorruptFile for wrong numbers.
    """
    untouched = layout.pack({})
    chunks = [bytearray(stored[at : at + CHUNK_BYTES]) for at in range(0, len(stored), CHUNK_BYTES)]
    chunks[0], chunks[-1] = chunks[-1], chunks[0]
    for number, chunk in enumerate(chunks):
        if chunk[-1] >> 4 != number:
            raise CorruptFile(f"compute descriptor: chunk {number} is numbered {chunk[-1] >> 4}; the file is damaged")
        chunk[-1] = chunk[-1] & 15 | untouched[(number + 1) * CHUNK_BYTES - 1] & 0xF0
    return b"".join(chunks)
