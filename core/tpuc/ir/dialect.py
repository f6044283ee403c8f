"""Dialects: op names and where their definitions live, imported when first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tpuc.ir.op import Op

OpResolver: TypeAlias = "Callable[[str], type[Op] | None]"
"""Full op name (`top.Conv`) to its definition, None when unknown."""


@dataclass(frozen=True)
class Dialect:
    """A dialect: `ops` maps the name without prefix to `"module:Class"`.

    One line per op here is all it takes to register one.
    """

    name: str
    ops: Mapping[str, str]
    api_version: int = 1
    _loaded: dict[str, type[Op]] = field(default_factory=dict[str, "type[Op]"], repr=False, compare=False)

    def op(self, name: str) -> type[Op] | None:
        """The definition of `name` (without prefix), None when the dialect has no such op."""
        if name not in self._loaded:
            place = self.ops.get(name)
            if place is None:
                return None
            module, _, attribute = place.partition(":")
            self._loaded[name] = getattr(importlib.import_module(module), attribute)
        return self._loaded[name]
