"""Convert attributes of operations to Python values."""

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
    """Convert an attribute: lists to tuples, types to types, `dense<...>` to arrays."""
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
    """Return an attribute, stated or derived from types, as a Python value."""
    found = attribute(operation, name)
    return default if found is None else plain(found)


def facts(operation: Operation) -> dict[str, Any]:
    """Return all stated attributes."""
    return {name: plain(value) for name, value in operation.extra_attributes.items()}
