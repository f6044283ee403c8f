"""FlatBuffers by a table of facts: what is written is read again, by another reader as well."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import flatbuffers
import pytest
from tpuc.errors import CorruptFile, Unsupported
from tpuc_chip_parts.flatbuffer import FieldFact, Schema, TypeFact, check_rewritable

from tests.families import each


def _fields(*rows: tuple[str, str]) -> tuple[FieldFact, ...]:
    return tuple(FieldFact(slot, name, type_, 0.0) for slot, (name, type_) in enumerate(rows))


SCHEMA = Schema(
    {
        "Extent": TypeFact(True, _fields(("start", "uint64"), ("count", "uint32"))),
        "Item": TypeFact(False, _fields(("name", "string"), ("size", "int32"))),
        "File": TypeFact(
            False,
            _fields(
                ("version", "uint8"),
                ("place", "Extent"),
                ("items", "[Item]"),
                ("names", "[string]"),
                ("shape", "[int64]"),
                ("scales", "[float32]"),
                ("data", "[uint8]"),
                ("scale", "float32"),
            ),
        ),
    }
)
RECORD: dict[str, Any] = {
    "version": 3,
    "place": (1 << 40, 7),
    "items": [{"name": "a", "size": -5}, {"size": 2**31 - 1}],
    "names": ["x", "", "ä"],
    "shape": [1, -1, 1 << 40],
    "scales": [0.5, -2.0],
    "data": b"\x00\xff",
    "scale": 0.25,
}


def test_what_is_written_is_read() -> None:
    block = SCHEMA.write(RECORD, "File")
    assert SCHEMA.read(block, "File") == RECORD
    assert SCHEMA.write(RECORD, "File") == block


@dataclass
class Library:
    """The library's own accessors."""

    table: flatbuffers.table.Table

    def at(self, slot: int) -> int:
        return self.table.Offset(4 + 2 * slot) + self.table.Pos


def test_the_library_reads_it() -> None:
    block = SCHEMA.write(RECORD, "File")
    (root,) = struct.unpack_from("<I", block)
    library = Library(flatbuffers.table.Table(block, root))
    place = library.at(1)
    assert place % 8 == 0, "a struct lies at a multiple of its largest field"
    assert struct.unpack_from("<QI", block, place) == (1 << 40, 7)
    assert struct.unpack_from("<f", block, library.at(7)) == (0.25,)
    assert library.table.VectorLen(library.table.Offset(4 + 2 * 4)) == 3


@each("cut", [0, 3, 20])
def test_damaged_bytes_are_refused(cut: int) -> None:
    with pytest.raises(CorruptFile, match="the file is damaged or truncated"):
        SCHEMA.read(SCHEMA.write(RECORD, "File")[:cut], "File")


def test_tables_that_many_others_share_are_no_endless_work() -> None:
    """Ten levels of a hundred references to one table each would be a hundred to the tenth tables."""
    builder: Any = flatbuffers.Builder()
    table = None
    for _ in range(10):
        children = None
        if table is not None:
            builder.StartVector(4, 100, 4)
            for _ in range(100):
                builder.PrependUOffsetTRelative(table)
            children = builder.EndVector()
        builder.StartObject(1)
        if children is not None:
            builder.PrependUOffsetTRelativeSlot(0, children, 0)
        table = builder.EndObject()
    builder.Finish(table)
    schema = Schema({"Node": TypeFact(False, _fields(("children", "[Node]")))})
    with pytest.raises(CorruptFile, match="more values than bytes; the file is damaged or truncated"):
        schema.read(bytes(builder.Output()), "Node")


def test_numbers_that_no_field_holds_make_a_file_another_compilers() -> None:
    """Sizes that a damaged file multiplies, say."""
    check_rewritable(lambda: SCHEMA.write(RECORD, "File"), SCHEMA.write(RECORD, "File"))
    for record in ({"place": (1 << 67, 7)}, {"items": [{"size": 1 << 40}]}, {"version": 256}):
        with pytest.raises(ValueError, match=r"bad number|format requires|out of range"):
            SCHEMA.write(RECORD | record, "File")
    with pytest.raises(Unsupported, match="written by another compiler"):
        check_rewritable(lambda: SCHEMA.write({"items": [{"size": 1 << 40}]}, "File"), b"")
