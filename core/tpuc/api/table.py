"""Tables of cells that a package registers for an (owner, dialect) pair, filled by decorators at import."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from tpuc.errors import PluginError
from tpuc.ir import Op

CellT = TypeVar("CellT")
API_VERSION = 1


def import_modules(package: str) -> None:
    """Import every module of a package, so that their decorators register their cells."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


class Table:
    """Cells by key. `owner` is a chip or a front end, `dialect` the dialect of the ops."""

    def __init__(self, owner: str, dialect: str) -> None:
        self.owner = owner
        self.dialect = dialect
        self.api_version = API_VERSION
        self._cells: dict[Hashable, Any] = {}

    @property
    def cells(self) -> Mapping[Hashable, Any]:
        """All registered cells."""
        return self._cells

    def _registers(self, ops: Sequence[type[Op]]) -> Callable[[type[CellT]], type[CellT]]:
        """Class decorator: register an instance for each of `ops`."""

        def register(cell: type[CellT]) -> type[CellT]:
            for op in ops:
                self._add(op.name, cell())
            return cell

        return register

    def _add(self, key: Hashable, cell: Any) -> None:
        if key in self._cells:
            raise PluginError(f"table {self.owner}.{self.dialect}: {key!r} is registered twice; keep one of the two")
        self._cells[key] = cell


class LoweringTable(Table):
    """TOP op × mode → how a chip computes it."""

    def lowers(self, op: type[Op], *modes: str) -> Callable[[type[CellT]], type[CellT]]:
        """Class decorator: register an instance for `op` in each of `modes`."""

        def register(lowering: type[CellT]) -> type[CellT]:
            for mode in modes:
                self._add((op.name, mode), lowering())
            return lowering

        return register


class LegalizationTable(Table):
    """TOP op → the ops that replace it on chips that do not compute it."""

    def legalizes(self, *ops: type[Op]) -> Callable[[type[CellT]], type[CellT]]:
        """Class decorator: register an instance for each of `ops`."""
        return self._registers(ops)

    legalises = legalizes  # until version 0.3


class KernelTable(Table):
    """TPU op → instructions."""

    def runs(self, *ops: type[Op]) -> Callable[[type[CellT]], type[CellT]]:
        """Class decorator: register an instance for each of `ops`."""
        return self._registers(ops)

    def serves(self, cells: Mapping[type[Op], Any]) -> None:
        """Register cell instances: kernels with chip-specific parameters."""
        for op, cell in cells.items():
            self._add(op.name, cell)


class ImporterTable(Table):
    """Foreign op → how to build ours. Keys are `OpType`, or `domain::OpType` outside the default domain."""

    def imports(self, *ops: str) -> Callable[[CellT], CellT]:
        """Decorator of a function `(node: ForeignNode, build: ImportBuilder) -> Value | Sequence[Value]`."""

        def register(importer: CellT) -> CellT:
            for op in ops:
                self._add(op, importer)
            return importer

        return register
