"""Collects what the `refuse` methods of lowerings and kernels can say, for generated support tables.

The sentences are read from the source, so that the text in the code stays the only one: what `refuse` returns, and what
the functions return whose results it hands on. Nothing is executed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Found: TypeAlias = "str | None"
"""A sentence, or None for a reason that cannot be read from the source."""

_UNKNOWN = "\N{HORIZONTAL ELLIPSIS}"
_INSTANCE = re.compile(rf"[,;]? (?:this \w+|these|there) \w+\b[^;]*{_UNKNOWN}[^;]*")


@dataclass(frozen=True)
class Refusals:
    """The sentences of one cell, in the order of the source and without the part about a single node.

    `complete` is False when the cell may say something that could not be read.
    """

    sentences: tuple[str, ...]
    complete: bool


def refusals_of(cell: object) -> Refusals:
    """What the cell's `refuse` can say, or those of the cells that it chooses from."""
    found = list(_Reader(cell).method("refuse") if hasattr(cell, "refuse") else _parts(cell, set()))
    return Refusals(tuple(dict.fromkeys(text for text in found if text)), None not in found)


def _parts(cell: object, seen: set[Any]) -> Iterator[Found]:
    """A cell that hands the node to one of several others holds them as attributes."""
    parts = [value for value in vars(cell).values() if hasattr(value, "refuse")]
    if not parts:
        yield None
    for part in parts:
        yield from _Reader(part, None, seen).method("refuse")


class _Reader:
    """Follows the source of a cell's class, of the bases behind `after` only if given; `seen` was read already."""

    def __init__(self, cell: object, after: type[Any] | None = None, seen: set[Any] | None = None) -> None:
        lineage = type(cell).__mro__
        self._lineage = lineage if after is None else lineage[lineage.index(after) + 1 :]
        self._cell = cell
        self._seen: set[Any] = set() if seen is None else seen

    def method(self, name: str) -> Iterator[Found]:
        """The sentences of a method, looked up along the base classes."""
        for owner in self._lineage:
            if name in vars(owner):
                function = inspect.unwrap(getattr(owner, name))
                yield from _Function(function, {}, self._seen, self._cell, owner).sentences()
                return
        yield None


class _Function:
    """One function: `given` holds the arguments that are known at the call, `owner` is the class of a method."""

    def __init__(
        self,
        function: Callable[..., Any],
        given: Mapping[str, Any],
        seen: set[Any],
        cell: object,
        owner: type[Any] | None = None,
    ) -> None:
        self._function = function
        self._seen = seen
        self._cell = cell
        self._owner = owner
        closure = inspect.getclosurevars(function)
        parameters = inspect.signature(function).parameters.values()
        defaults = {item.name: item.default for item in parameters if item.default is not item.empty}
        self._names = {**closure.globals, **closure.nonlocals, **defaults, **given}
        self._assigned: dict[str, list[ast.expr]] = {}

    def sentences(self) -> Iterator[Found]:
        """What it can return."""
        key = (self._function, tuple(sorted((name, repr(value)) for name, value in self._names.items())))
        if key in self._seen:
            return
        self._seen.add(key)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(self._function)))
        except (OSError, TypeError):
            yield None
            return
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._assigned.setdefault(name, []).append(value)
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    self._assigned.setdefault(name, []).append(value)
                case _:
                    pass
        returned = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
        for node in sorted(returned, key=lambda node: node.lineno):
            assert node.value is not None
            yield from self._read(node.value)

    def _read(self, node: ast.expr) -> Iterator[Found]:
        match node:
            case ast.Constant(value=None):
                return
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr():
                yield _general(self._text(node))
            case ast.IfExp(body=body, orelse=other):
                yield from self._read(body)
                yield from self._read(other)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self._read(value)
            case ast.NamedExpr(value=value):
                yield from self._read(value)
            case ast.Name(id=name) if name in self._assigned:
                for value in self._assigned.pop(name):
                    yield from self._read(value)
            case ast.Call():
                yield from self._call(node)
            case _:
                yield None

    def _call(self, node: ast.Call) -> Iterator[Found]:
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if self._owner is not None:
                yield from _Reader(self._cell, self._owner, self._seen).method(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield from _Reader(self._cell, None, self._seen).method(name)
            case _ if inspect.isfunction(function := self._value(node.func)):
                yield from _Function(function, self._arguments(function, node), self._seen, self._cell).sentences()
            case _ if inspect.ismethod(function := self._value(node.func)):
                given = {**self._arguments(function, node), "self": function.__self__}
                yield from _Function(function.__func__, given, self._seen, self._cell).sentences()
            case ast.Attribute(attr="refuse"):
                yield from _parts(self._cell, self._seen)
            case _:
                yield None

    def _arguments(self, function: Callable[..., Any], call: ast.Call) -> dict[str, Any]:
        """The arguments of a call that are constants."""
        names = list(inspect.signature(function).parameters)
        pairs = [*zip(names, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
        known = {name: self._value(value) for name, value in pairs}
        return {name: value for name, value in known.items() if isinstance(value, (str, int, float))}

    def _text(self, node: ast.JoinedStr) -> str:
        parts: list[str] = []
        for part in node.values:
            match part:
                case ast.Constant(value=str(text)):
                    parts.append(text)
                case ast.FormattedValue(value=inner):
                    value = self._value(inner)
                    parts.append(str(value) if isinstance(value, (str, int, float)) else _UNKNOWN)
                case _:
                    parts.append(_UNKNOWN)
        return "".join(parts)

    def _value(self, node: ast.expr) -> Any:
        """A constant, or what a module-level name stands for; None for everything else."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Attribute(value=inner, attr=attribute):
                owner = self._value(inner)
                return None if owner is None else inspect.getattr_static(owner, attribute, None)
            case _:
                return None


def _general(sentence: str) -> str:
    """Without what it says about the node at hand: `at most 15, this one is 40` is `at most 15`."""
    return _INSTANCE.sub("", sentence).rstrip("; ")
