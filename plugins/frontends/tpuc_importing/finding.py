"""Find the importers of a format through the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tpuc.api import Dialect, ForeignNode, ImporterTable, PluginConflict, PluginError, Value
from tpuc_ops.elementwise import Function, functions_in

OWN_DIALECT = "top"

Importer: TypeAlias = Callable[[ForeignNode, Any], Any]
"""Maps a node and the front end's builder to the node's results."""


def importer_key(node: ForeignNode) -> str:
    """Return the key of a node in importer tables."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def plain_function(op: type[Function]) -> Importer:
    """Return the importer of a function whose operand is the node's first one."""

    def importer(node: ForeignNode, build: Any) -> Value:
        return build.build(op(), [build.value(node.inputs[0])], node.outputs[0])

    return importer


def functions_of(dialect: Dialect, form: str) -> Mapping[str, type[Function]]:
    """Return the unary functions that state a name in a format, by that name; imports the whole dialect."""
    names = [(name.partition("."), op) for op in functions_in(dialect) for name in op.foreign]
    return {operator: op for (stated, _, operator), op in names if stated == form}


def refuse_operators(table: ImporterTable, reasons: Mapping[str, str]) -> None:
    """Register importers of operators that networks cannot contain; each raises its reason."""

    @table.imports(*reasons)
    def refused(node: ForeignNode, build: Any) -> Value:
        raise build.refuse(node, reasons[importer_key(node)])


class ImporterFinder:
    """Looks up importers of a format in the tables of dialects, and among the unary functions of these dialects.

    `FORMAT.top` comes first, so a new package never changes what could be read before. `function` builds the importer
    of a unary function.
    """

    def __init__(
        self, registry: Any, form: str, function: Callable[[type[Function]], Importer] = plain_function
    ) -> None:
        self._registry = registry
        self._form = form
        self._function = function
        others: list[str] = registry.table_dialects("tpuc.importers", form)
        self._others = [dialect for dialect in others if dialect != OWN_DIALECT]
        self._functions: dict[str, Mapping[str, type[Function]]] = {}
        self._found: dict[str, Importer | None] = {}

    def __call__(self, key: str) -> Importer | None:
        """Return the importer of an operator, None if there is none; raises PluginConflict if several packages
        have one.
        """
        if key not in self._found:
            own = self._importer(OWN_DIALECT, key)
            self._found[key] = self._look_up(self._usable(), key) if own is None else own
        return self._found[key]

    def _usable(self) -> Sequence[str]:
        """Return the other dialects, without those whose tables cannot be loaded."""
        for dialect in tuple(self._others):
            try:
                self._registry.merged("tpuc.importers", self._form, dialect)
            except PluginError as error:
                self._registry.leave_out(error)
                self._others.remove(dialect)
        return self._others

    def _look_up(self, dialects: Sequence[str], key: str) -> Importer | None:
        found = {dialect: importer for dialect in dialects if (importer := self._importer(dialect, key)) is not None}
        if len(found) > 1:
            packages = ", ".join(sorted(self._provider(dialect, key) for dialect in found))
            raise PluginConflict(
                f"importer '{key}' for {self._form} is offered for several dialects: {packages}. Uninstall one of them."
            )
        return next(iter(found.values()), None)

    def _importer(self, dialect: str, key: str) -> Importer | None:
        cell = self._cell(dialect, key)
        if cell is not None:
            return cell.value
        op = self._functions_of(dialect).get(key)
        return None if op is None else self._function(op)

    def _provider(self, dialect: str, key: str) -> str:
        """Return the package that provides an importer."""
        cell = self._cell(dialect, key)
        offer = self._registry.offer("tpuc.dialects", dialect) if cell is None else cell.offer
        return offer.provider

    def _cell(self, dialect: str, key: str) -> Any:
        return self._registry.find_cell("tpuc.importers", (self._form,), dialect, key)

    def _functions_of(self, dialect: str) -> Mapping[str, type[Function]]:
        if dialect not in self._functions:
            found = None
            if self._registry.has("tpuc.dialects", dialect):
                try:
                    found = self._registry.get("tpuc.dialects", dialect)
                except PluginError as error:
                    self._registry.leave_out(error)
            self._functions[dialect] = {} if found is None else functions_of(found, self._form)
        return self._functions[dialect]
