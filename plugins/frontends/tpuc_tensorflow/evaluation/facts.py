"""Attributes of operations as plain Python values."""

from __future__ import annotations

from typing import Any

from tpuc.api import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    TypeAttr,
)

from tpuc_tensorflow.dialects.constants import dense_array
from tpuc_tensorflow.dialects.tf import attribute


def plain(value: Attribute) -> Any:
    """An attribute as Python has it: lists as tuples, types as types, `dense<...>` as arrays."""
    match value:
        case IntegerAttr() | FloatAttr() | BoolAttr() | StringAttr():
            return value.value
        case ArrayAttr(items=items):
            return tuple(map(plain, items))
        case TypeAttr(type=type):
            return type
        case SymbolAttr(name=name):
            return name
        case DictAttr(items=items):
            return {name: plain(item) for name, item in items}
        case DialectAttr(text=text) if text.startswith("dense<"):
            return dense_array(value)
        case _:
            return value


def fact(operation: Operation, name: str, default: Any = None) -> Any:
    """An attribute, stated or derived from types, as a plain value."""
    found = attribute(operation, name)
    return default if found is None else plain(found)


def facts(operation: Operation) -> dict[str, Any]:
    """All stated attributes."""
    return {name: plain(value) for name, value in operation.extra_attributes.items()}
