"""Build protobuf message classes from tables of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Fields: TypeAlias = str
"""Words `name:type`. A type is i (integer), f (float), d (double), b (bool), s (string), y (bytes), x (32 fixed bits),
or the name of a message or enumeration, with `*` if repeated, and `=number` if the number is given.
"""

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS: Mapping[str, Any] = {
    "i": _FIELD.TYPE_INT64,
    "f": _FIELD.TYPE_FLOAT,
    "d": _FIELD.TYPE_DOUBLE,
    "b": _FIELD.TYPE_BOOL,
    "s": _FIELD.TYPE_STRING,
    "y": _FIELD.TYPE_BYTES,
    "x": _FIELD.TYPE_FIXED32,
}


def message_classes(package: str, messages: Mapping[str, Fields], enums: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the classes of all messages. Enumeration values count from 0 or state `NAME=number`; `-` skips a
    number.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, values in enums.items():
        # Names of values are unique within a message: several enumerations have a MAX or a NONE.
        enum = file.message_type.add(name=name).enum_type.add(name="Value")
        for position, word in enumerate(values.split()):
            value, _, number = word.partition("=")
            if value != "-":
                enum.value.add(name=value, number=int(number or position))
    for name, fields in messages.items():
        file.message_type.add(name=name).field.extend(_fields(package, fields, enums))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _fields(package: str, text: Fields, enums: Mapping[str, str]) -> Iterator[descriptor_pb2.FieldDescriptorProto]:
    for position, word in enumerate(text.split(), 1):
        name, _, rest = word.partition(":")
        kind, _, number = rest.partition("=")
        repeated, kind = kind.endswith("*"), kind.rstrip("*")
        field = _FIELD(name=name, number=int(number or position))
        field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            is_enum = kind in enums
            field.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE
            field.type_name = f".{package}.{kind}.Value" if is_enum else f".{package}.{kind}"
        yield field
