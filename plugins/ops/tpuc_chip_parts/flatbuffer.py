"""FlatBuffers driven by a schema table: bytes to nested dictionaries and back.

The schema is JSON, `{"types": {NAME: {"kind": "table" or "struct", "fields": [[SLOT, NAME, TYPE, DEFAULT], ...]}}}`;
types are scalars, `string`, other names, and vectors of these in brackets.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

import flatbuffers  # pyright: ignore[reportMissingTypeStubs]  # the library carries no types
from flatbuffers import table as flatbuffers_table  # pyright: ignore[reportMissingTypeStubs]
from tpuc.api import CorruptFile, Unsupported

Value: TypeAlias = Any
Builder: TypeAlias = Any
"""flatbuffers.Builder; the library has no type annotations."""
Record: TypeAlias = dict[str, Any]

_SCALARS = {"uint64": "<Q", "int64": "<q", "uint32": "<I", "int32": "<i", "float32": "<f", "uint8": "<B"}
_READ_ERRORS = (struct.error, IndexError, ValueError, TypeError, OverflowError)
_DEPTH_LIMIT = 16
"""Maximum nesting of tables: far more than model files have, but a damaged one may refer to itself."""


@dataclass(frozen=True)
class FieldFact:
    """One field of a table or struct: its slot, name, type and default."""

    slot: int
    name: str
    type: str
    default: float


@dataclass(frozen=True)
class TypeFact:
    """A table or a struct."""

    is_struct: bool
    fields: tuple[FieldFact, ...]


class Schema:
    """The types of one file format."""

    def __init__(self, types: Mapping[str, TypeFact]) -> None:
        self.types = types

    @staticmethod
    @functools.cache
    def load(package: str, file: str) -> Schema:
        """The schema in a JSON file of a package."""
        text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
        types: dict[str, TypeFact] = {}
        for name, entry in json.loads(text)["types"].items():
            rows: list[list[Any]] = entry["fields"]
            fields = tuple(FieldFact(row[0], row[1], row[2], float(row[3]) if len(row) > 3 else 0.0) for row in rows)
            types[name] = TypeFact(entry["kind"] == "struct", fields)
        return Schema(types)

    def read(self, data: bytes, root: str) -> Record:
        """The root table as nested dictionaries without absent fields; structs become tuples.

        Raises CorruptFile for other bytes.
        """
        try:
            (offset,) = struct.unpack_from("<I", data)
            return _Reader(self, data).table(root, offset, 0)
        except _READ_ERRORS as error:
            raise CorruptFile(
                f"FlatBuffers block of {len(data)} bytes: {error}; the file is damaged or truncated"
            ) from error

    def write(self, record: Record, root: str) -> bytes:
        """The FlatBuffers block of nested dictionaries; same input, same bytes.

        Raises ValueError for numbers that their fields do not hold.
        """
        builder: Builder = flatbuffers.Builder(4096)
        try:
            builder.Finish(_Writer(self, builder).table(root, record))
        except (TypeError, struct.error) as error:
            raise ValueError(str(error)) from error
        return bytes(builder.Output())

    def is_inline(self, type: str) -> bool:
        """True if a value of this type is stored in its table, not behind an offset."""
        return type in _SCALARS or (type in self.types and self.types[type].is_struct)

    def struct_format(self, name: str) -> str:
        """The format string for the module `struct`."""
        return "<" + "".join(_SCALARS[field.type][1] for field in self.types[name].fields)

    def size_of(self, type: str) -> int:
        """Bytes of an element of a vector."""
        if type in _SCALARS:
            return struct.calcsize(_SCALARS[type])
        return struct.calcsize(self.struct_format(type)) if self.is_inline(type) else 4


class _Reader:
    """Reads tables; a budget of values stops loops over forged vector lengths."""

    def __init__(self, schema: Schema, data: bytes) -> None:
        self._schema = schema
        self._data = data
        self._budget = 4 * len(data)

    def table(self, name: str, position: int, depth: int) -> Record:
        if depth > _DEPTH_LIMIT or not 0 < position < len(self._data):
            raise ValueError(f"table {name} at {position}")
        table: Any = flatbuffers_table.Table(self._data, position)
        record: Record = {}
        for field in self._schema.types[name].fields:
            offset = table.Offset(4 + 2 * field.slot)
            if offset:
                record[field.name] = self._field(table, field.type, position + offset, depth)
        return record

    def _field(self, table: Any, type: str, position: int, depth: int) -> Value:
        self._budget -= 1
        if self._budget < 0:
            raise ValueError("more values than bytes")
        if type == "string":
            return self._vector_bytes(position).decode("utf-8")
        if type.startswith("["):
            return self._vector(table, type[1:-1], position, depth)
        if type in _SCALARS:
            return struct.unpack_from(_SCALARS[type], self._data, position)[0]
        if self._schema.types[type].is_struct:
            return struct.unpack_from(self._schema.struct_format(type), self._data, position)
        return self.table(type, table.Indirect(position), depth + 1)

    def _start_of_vector(self, position: int) -> tuple[int, int]:
        (offset,) = struct.unpack_from("<I", self._data, position)
        (length,) = struct.unpack_from("<I", self._data, position + offset)
        return position + offset + 4, length

    def _vector_bytes(self, position: int) -> bytes:
        start, length = self._start_of_vector(position)
        if start + length > len(self._data):
            raise ValueError(f"{length} bytes at {start}")
        return self._data[start : start + length]

    def _vector(self, table: Any, type: str, position: int, depth: int) -> Value:
        if type == "uint8":
            return self._vector_bytes(position)
        start, length = self._start_of_vector(position)
        size = self._schema.size_of(type)
        if start + length * size > len(self._data):
            raise ValueError(f"{length} elements of {type} at {start}")
        self._budget -= length
        places = range(start, start + length * size, size)
        return [self._field(table, type, place, depth) for place in places]


def check_rewritable(encode: Callable[[], bytes], data: bytes) -> None:
    """Raise Unsupported if encoding what was read from a file does not give its bytes: rewriting would lose some."""
    try:
        same = encode() == data
    except ValueError:  # numbers that no field holds
        same = False
    if not same:
        raise Unsupported("this file was written by another compiler; combine and extract its networks with its tools")


class _Writer:
    def __init__(self, schema: Schema, builder: Builder) -> None:
        self._schema = schema
        self._builder = builder

    def table(self, name: str, record: Record) -> int:
        fields, builder = self._schema.types[name].fields, self._builder
        offsets = {
            field.name: self._indirect(field.type, record[field.name])
            for field in fields
            if field.name in record and not self._schema.is_inline(field.type)
        }
        builder.StartObject(max(field.slot for field in fields) + 1)
        for field in fields:
            if field.name in offsets:
                builder.PrependUOffsetTRelativeSlot(field.slot, offsets[field.name], 0)
            elif field.name in record:
                self._inline(field, record[field.name])
        return builder.EndObject()

    def _inline(self, field: FieldFact, value: Value) -> None:
        if field.type not in _SCALARS:
            self._builder.PrependStructSlot(field.slot, self._struct(field.type, value), 0)
            return
        put = getattr(self._builder, f"Prepend{field.type.capitalize()}Slot")
        put(field.slot, value, field.default if field.type == "float32" else int(field.default))

    def _struct(self, name: str, values: Value) -> int:
        data = struct.pack(self._schema.struct_format(name), *values)
        self._builder.Prep(
            max(self._schema.size_of(field.type) for field in self._schema.types[name].fields), len(data)
        )
        for byte in reversed(data):
            self._builder.PrependByte(byte)
        return self._builder.Offset()

    def _indirect(self, type: str, value: Value) -> int:
        builder = self._builder
        if type == "string":
            return builder.CreateString(value)
        if not type.startswith("["):
            return self.table(type, value)
        element = type[1:-1]
        if element == "uint8":
            return builder.CreateByteVector(bytes(value))
        if element not in _SCALARS:
            offsets = [self._indirect(element, item) for item in value]
            builder.StartVector(4, len(offsets), 4)
            for offset in reversed(offsets):
                builder.PrependUOffsetTRelative(offset)
            return builder.EndVector()
        size = self._schema.size_of(element)
        builder.StartVector(size, len(value), size)
        put = getattr(builder, f"Prepend{element.capitalize()}")
        for item in reversed(value):
            put(item)
        return builder.EndVector()
