"""FlatBuffers driven by the facts in `cvimodel_schema.json`: bytes to nested dictionaries and back."""

from __future__ import annotations

import functools
import json
import struct
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

import flatbuffers  # pyright: ignore[reportMissingTypeStubs]  # the library carries no types
from flatbuffers import table as flatbuffers_table  # pyright: ignore[reportMissingTypeStubs]
from tpuc.api import CorruptFile

Value: TypeAlias = Any
Builder: TypeAlias = Any
"""flatbuffers.Builder; the library carries no types."""
Record: TypeAlias = dict[str, Any]

_SCALARS = {"int64": "<q", "uint32": "<I", "int32": "<i", "float32": "<f", "uint8": "<B"}
_READ_ERRORS = (struct.error, IndexError, ValueError, TypeError, OverflowError)
_DEPTH_LIMIT = 16


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


@functools.cache
def load_schema() -> dict[str, TypeFact]:
    """All types by name."""
    text = resources.files("tpuc_cv183x.container").joinpath("cvimodel_schema.json").read_text(encoding="utf-8")
    types: dict[str, TypeFact] = {}
    for name, entry in json.loads(text)["types"].items():
        rows: list[list[Any]] = entry["fields"]
        fields = tuple(FieldFact(row[0], row[1], row[2], float(row[3]) if len(row) > 3 else 0.0) for row in rows)
        types[name] = TypeFact(entry["kind"] == "struct", fields)
    return types


# -- reading -----------------------------------------------------------------------------------------------------------


def read_table(data: bytes, root: str) -> Record:
    """The root table as nested dictionaries; absent fields are left out, structs become tuples."""
    try:
        (offset,) = struct.unpack_from("<I", data)
        return _Reader(data).table(root, offset, 0)
    except _READ_ERRORS as error:
        raise CorruptFile(
            f"FlatBuffers block of {len(data)} bytes: {error}; the file is damaged or truncated"
        ) from error


class _Reader:
    """Reads tables; the budget of values ends loops over forged vector lengths."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._budget = 4 * len(data)

    def table(self, name: str, position: int, depth: int) -> Record:
        if depth > _DEPTH_LIMIT or not 0 < position < len(self._data):
            raise ValueError(f"table {name} at {position}")
        table: Any = flatbuffers_table.Table(self._data, position)
        record: Record = {}
        for field in load_schema()[name].fields:
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
        if load_schema()[type].is_struct:
            return struct.unpack_from(_struct_format(type), self._data, position)
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
        size = _size_of(type)
        if start + length * size > len(self._data):
            raise ValueError(f"{length} elements of {type} at {start}")
        self._budget -= length
        places = range(start, start + length * size, size)
        return [self._field(table, type, place, depth) for place in places]


def _struct_format(name: str) -> str:
    return "<" + "".join(_SCALARS[field.type][1] for field in load_schema()[name].fields)


def _size_of(type: str) -> int:
    if type in _SCALARS:
        return struct.calcsize(_SCALARS[type])
    fact = load_schema().get(type)
    return struct.calcsize(_struct_format(type)) if fact is not None and fact.is_struct else 4


# -- writing -----------------------------------------------------------------------------------------------------------


def write_table(record: Record, root: str) -> bytes:
    """The FlatBuffers block of nested dictionaries; same input, same bytes."""
    builder: Builder = flatbuffers.Builder(4096)
    builder.Finish(_write(builder, root, record))
    return bytes(builder.Output())


def _write(builder: Builder, name: str, record: Record) -> int:
    fields = load_schema()[name].fields
    offsets = {
        field.name: _write_indirect(builder, field.type, record[field.name])
        for field in fields
        if field.name in record and not _is_inline(field.type)
    }
    builder.StartObject(max(field.slot for field in fields) + 1)
    for field in fields:
        if field.name in offsets:
            builder.PrependUOffsetTRelativeSlot(field.slot, offsets[field.name], 0)
        elif field.name in record:
            _write_inline(builder, field, record[field.name])
    return builder.EndObject()


def _is_inline(type: str) -> bool:
    return type in _SCALARS or (type in load_schema() and load_schema()[type].is_struct)


def _write_inline(builder: Builder, field: FieldFact, value: Value) -> None:
    if field.type not in _SCALARS:
        builder.PrependStructSlot(field.slot, _write_struct(builder, field.type, value), 0)
        return
    put = {
        "int64": builder.PrependInt64Slot,
        "uint32": builder.PrependUint32Slot,
        "int32": builder.PrependInt32Slot,
        "float32": builder.PrependFloat32Slot,
        "uint8": builder.PrependUint8Slot,
    }[field.type]
    put(field.slot, value, field.default if field.type == "float32" else int(field.default))


def _write_struct(builder: Builder, name: str, values: Value) -> int:
    data = struct.pack(_struct_format(name), *values)
    builder.Prep(1, len(data))
    for byte in reversed(data):
        builder.PrependByte(byte)
    return builder.Offset()


def _write_indirect(builder: Builder, type: str, value: Value) -> int:
    if type == "string":
        return builder.CreateString(value)
    if not type.startswith("["):
        return _write(builder, type, value)
    element = type[1:-1]
    if element == "uint8":
        return builder.CreateByteVector(bytes(value))
    if element not in _SCALARS:
        offsets = [_write_indirect(builder, element, item) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    size = _size_of(element)
    builder.StartVector(size, len(value), size)
    put = {
        "int64": builder.PrependInt64,
        "int32": builder.PrependInt32,
        "uint32": builder.PrependUint32,
        "float32": builder.PrependFloat32,
    }[element]
    for item in reversed(value):
        put(item)
    return builder.EndVector()
