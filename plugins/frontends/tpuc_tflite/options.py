"""Attributes of operators: every field of an option table under its schema name, as a plain Python value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tpuc_ops.arrays import Array

CUSTOM = "custom_options"
"""The attribute that holds the bytes of a custom operator's options."""
_SUFFIXES = ("AsNumpy", "IsNone", "Length")
_FRAME = frozenset({"Init", "GetRootAs"})


class OptionReader:
    """Reads option tables; the fields of each kind are looked up once."""

    def __init__(self, tflite: Any, ints: Callable[[Any, str], Array]) -> None:
        self._tflite = tflite
        self._ints = ints
        self._fields: dict[type, tuple[tuple[str, str, bool], ...]] = {}

    def __call__(self, operator: Any) -> Mapping[str, Any]:
        """Return the attributes of an operator: `stride_w`, `fused_activation_function`, ...; vectors become tuples."""
        for union, options in (("BuiltinOptions2", "BuiltinOptions2"), ("BuiltinOptions", "BuiltinOptions")):
            kind = getattr(operator, f"{options}Type", int)()
            table = getattr(operator, options)() if kind else None
            if table is not None:
                return self._attributes(table, self._class(union, kind))
        return {}

    def _class(self, union: str, kind: int) -> type:
        """Return the class of a union member."""
        for name, number in members(getattr(self._tflite, union)):
            if number == kind:
                return getattr(self._tflite, name)
        raise ValueError(f"{union} {kind} is not known")

    def _attributes(self, table: Any, kind: type) -> Mapping[str, Any]:
        options: Any = kind()
        options.Init(table.Bytes, table.Pos)
        attributes: dict[str, Any] = {}
        for field, name, is_vector in self._of(kind):
            if is_vector:
                attributes[name] = tuple(self._ints(options, field).tolist())
                continue
            value = getattr(options, field)()
            attributes[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return attributes

    def _of(self, kind: type) -> tuple[tuple[str, str, bool], ...]:
        if kind not in self._fields:
            methods = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
            fields = [
                name
                for name in methods
                if name not in _FRAME
                and not name.startswith("GetRootAs")
                and not name.endswith(("BufferHasIdentifier", *_SUFFIXES))
            ]
            self._fields[kind] = tuple((name, _snake(name), f"{name}Length" in methods) for name in fields)
        return self._fields[kind]


def _snake(name: str) -> str:
    """Convert `FusedActivationFunction` to `fused_activation_function`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def members(enumeration: type) -> list[tuple[str, int]]:
    """Return names and numbers of one of the schema's enumerations."""
    return [(name, number) for name, number in vars(enumeration).items() if isinstance(number, int)]
