"""Dialects: op names and the modules that define them, imported on first use."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from tpuc.ir.op import Op

OpResolver: TypeAlias = "Callable[[str], type[Op] | None]"
"""Full op name (`top.Conv`) to its definition, None when unknown."""


@dataclass(frozen=True)
class Dialect:
    """A dialect: `ops` maps the name without prefix to `"module:Class"`.

    Alternatively, `package` names a package with one op per module, `MaxPool` in `max_pool.py`, so that adding a file
    adds an op. Case and underscores are ignored: `GELU` is in `gelu.py` and `None_`, which defines `None`, in
    `none_.py`. `others` makes an open dialect: `"module:function"` returns the definition of any name that is not
    listed. `former` maps names in older files to today's.
    """

    name: str
    ops: Mapping[str, str] = field(default_factory=dict[str, str])
    api_version: int = 1
    package: str | None = None
    others: str | None = None
    former: Mapping[str, str] = field(default_factory=dict[str, str])
    _loaded: dict[str, type[Op]] = field(default_factory=dict[str, "type[Op]"], repr=False, compare=False)

    def op(self, name: str) -> type[Op] | None:
        """The definition of `name` (without prefix), None when the dialect has no such op."""
        if name not in self._loaded:
            found = self._find(self.former.get(name, name))
            if found is None:
                return None
            self._loaded[name] = found
        return self._loaded[name]

    def names(self) -> Iterator[str]:
        """The ops without prefix in alphabetical order; imports the whole package."""
        defined = filter(None, map(self._of_module, self._modules))
        return iter(sorted({*self.ops, *(op.name.partition(".")[2] for op in defined)}))

    def definition(self, name: str) -> type[Op]:
        """For the package's `__getattr__`: the class `name`; raises AttributeError when there is none."""
        op = self.op(name.rstrip("_"))
        if op is None or op.__name__ != name:
            raise AttributeError(f"dialect '{self.name}' has no op class '{name}'")
        return op

    def _find(self, name: str) -> type[Op] | None:
        place = self.ops.get(name)
        if place is not None:
            return _object(place)
        op = self._of_module(_plain(name))
        if op is not None and op.name == f"{self.name}.{name}":
            return op
        return None if self.others is None else _object(self.others)(name)

    def _of_module(self, key: str) -> type[Op] | None:
        """The op that a module of the package defines under the module's own name; None for helper modules."""
        if key not in self._modules:
            return None
        module = importlib.import_module(f"{self.package}.{self._modules[key]}")
        ops = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Op))
        return next((op for op in ops if _plain(getattr(op, "name", "")) == f"{_plain(self.name)}.{key}"), None)

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        """The module of the package by normalized name."""
        if self.package is None:
            return {}
        folders = importlib.import_module(self.package).__path__
        return {_plain(one.name): one.name for one in pkgutil.iter_modules(folders)}


def _object(place: str) -> Any:
    """The object named `module:name`."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
