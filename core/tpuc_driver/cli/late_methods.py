"""Compile the methods of dataclasses at their first call, which makes commands start a quarter sooner.

Before Python 3.13, `dataclass` compiles up to six methods for each class at definition, and a command imports hundreds
of classes of which it instantiates few. `late_dataclass` asks `dataclass` for the fields alone. When a method is called
first, `dataclass` compiles it for a class with the same fields, a twin, and the first class takes it from there. The
first few objects of a class get their values without a compiled method. Only a process that runs a single command puts
this in the place of `dataclasses.dataclass`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cached_property, partial
from typing import Any, TypeAlias

Method: TypeAlias = Callable[..., Any]
Definition: TypeAlias = type[Any]
Options: TypeAlias = dict[str, Any]

LAST_VERSION = (3, 12)
"""Later versions compile all methods of a class at once, which is fast."""
METHODS = {"__init__": "init", "__repr__": "repr", "__eq__": "eq"}
"""The methods that wait for their first call, and the options of `dataclass` that ask for them."""
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
FEW = 16
"""So many objects of a class are cheaper to fill without a compiled `__init__`."""
_LATE: dict[Definition, bool] = {}
"""The classes made here, and whether they are frozen."""


def compile_methods_late() -> None:
    """Compile the methods of dataclasses defined from now on at their first call."""
    if sys.version_info[:2] <= LAST_VERSION:
        dataclasses.dataclass = late_dataclass


def late_dataclass(definition: Definition | None = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` with methods that compile themselves at their first call."""
    if definition is not None:
        return _late(definition, options)
    return partial(_late, options=options)


def _late(definition: Definition, options: Options) -> Definition:
    above = definition.__mro__[1:]
    if options.get("unsafe_hash") or any(map(_is_of_dataclass, above)):  # which looks at what it knows as frozen
        return dataclass(**options)(definition)
    frozen = bool(options.get("frozen"))
    if any(_LATE.get(one, frozen) != frozen for one in above):
        words = ("non-frozen", "frozen") if not frozen else ("frozen", "non-frozen")
        raise TypeError(f"cannot inherit {words[0]} dataclass from a {words[1]} one")
    names = [*_missing(definition, options)]
    undocumented = not definition.__doc__
    if undocumented:
        definition.__doc__ = definition.__name__  # else `dataclass` looks for a signature
    asked = {**options, **dict.fromkeys((*METHODS.values(), "order", "frozen"), False)}
    made: Definition = dataclass(**asked)(definition)
    for name in names:
        setattr(made, name, _waiting(made, name, options))
    if frozen:
        _freeze(made, slots=bool(options.get("slots")))
    elif options.get("eq", True) and not _states_hash(definition):
        setattr(made, "__hash__", None)  # noqa: B010  # pyright takes it for a method
    _LATE[made] = frozen
    return made


def _is_of_dataclass(definition: Definition) -> bool:
    """Whether `dataclass` itself made a class or one above it, and nothing here did."""
    return (
        definition not in _LATE and dataclasses.is_dataclass(definition) and _LATE.keys().isdisjoint(definition.__mro__)
    )


def _missing(definition: Definition, options: Options) -> Iterator[str]:
    """The methods that `dataclass` would compile for a class."""
    for name, option in METHODS.items():
        if options.get(option, True) and name not in vars(definition):
            yield name
    if options.get("order"):
        yield from COMPARISONS
    if options.get("frozen") and options.get("eq", True) and not _states_hash(definition):
        yield "__hash__"


def _states_hash(definition: Definition) -> bool:
    own = vars(definition)
    return "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)


def _freeze(owner: Definition, *, slots: bool) -> None:
    """What is there stays as it is; what has slots is pickled."""
    names = {one.name for one in fields(owner)}

    def set_one(self: object, name: str, value: object) -> None:
        if type(self) is owner or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(owner, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        if type(self) is owner or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(owner, self).__delattr__(name)

    def state(self: Any) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self)]

    def restore(self: Any, values: Sequence[object]) -> None:
        for one, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, one.name, value)

    methods: dict[str, Method] = {"__setattr__": set_one, "__delattr__": delete}
    if slots:
        methods |= {"__getstate__": state, "__setstate__": restore}
    for name, method in methods.items():
        setattr(owner, name, method)


def _waiting(owner: Definition, name: str, options: Options) -> Method:
    """A method that compiles itself and then replaces itself in its class."""
    made: Method | None = None
    filler = _Filler(owner, options) if name == "__init__" else None

    def method(self: object, *operands: Any, **named: Any) -> Any:
        nonlocal made
        if made is None and filler is not None and filler.fills(self, operands, named):
            return None
        if made is None:
            made = _compiled(owner, name, options)
            if vars(owner).get(name) is method:
                type.__setattr__(owner, name, made)
        return made(self, *operands, **named)

    method.__name__, method.__qualname__ = name, f"{owner.__qualname__}.{name}"
    return method


class _Filler:
    """Gives the first few objects of a class their values, where the arguments are as they should be."""

    def __init__(self, owner: Definition, options: Options) -> None:
        self._owner = owner
        self._slots = bool(options.get("slots"))
        self._set: Callable[[object, str, Any], None] = object.__setattr__ if options.get("frozen") else setattr
        self._left = FEW

    def fills(self, made: object, operands: tuple[Any, ...], named: dict[str, Any]) -> bool:
        self._left -= 1
        values = self._values(operands, named) if self._left >= 0 else None
        if values is None:
            return False
        for name, value in values.items():
            self._set(made, name, value)
        if hasattr(made, "__post_init__"):
            getattr(made, "__post_init__")()  # noqa: B009  # no attribute of every object
        return True

    @cached_property
    def _parts(self) -> tuple[dataclasses.Field[Any], ...]:
        return fields(self._owner)

    @cached_property
    def _places(self) -> list[str]:
        return [one.name for one in self._parts if one.init and not one.kw_only]

    @cached_property
    def _taken(self) -> set[str]:
        return {one.name for one in self._parts if one.init}

    @cached_property
    def _needed(self) -> set[str]:
        return {
            one.name for one in self._parts if one.init and one.default is MISSING and one.default_factory is MISSING
        }

    @cached_property
    def _takes_others(self) -> bool:
        return any("InitVar" in str(kind) for kind in _annotations(self._owner).values())

    def _values(self, operands: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
        """The value of each field in its order; nothing where an argument is missing, unknown, or given twice."""
        given = {**dict(zip(self._places, operands, strict=False)), **named}
        if len(given) < len(operands) + len(named) or not self._needed <= given.keys() <= self._taken:
            return None
        if self._takes_others:
            return None
        values: dict[str, Any] = {}
        for one in self._parts:
            if one.name in given:
                values[one.name] = given[one.name]
            elif one.default_factory is not MISSING:
                values[one.name] = one.default_factory()
            elif one.default is not MISSING and (one.init or self._slots):
                values[one.name] = one.default
        return values


def _compiled(owner: Definition, name: str, options: Options) -> Method:
    """The method of a twin of a class."""
    body: dict[str, Any] = {one.name: _copy(one) for one in fields(owner)}
    kinds = {one.name: one.type for one in fields(owner)}
    if name == "__init__":
        kinds = _with_arguments(owner, kinds, body)
    body["__annotations__"] = kinds
    body |= {"__module__": owner.__module__, "__qualname__": owner.__qualname__, "__doc__": owner.__doc__}
    if hasattr(owner, "__post_init__"):
        body["__post_init__"] = owner.__post_init__
    asked: Options = {option: one == name for one, option in METHODS.items()}
    asked["eq"] = name not in ("__init__", "__repr__")
    asked["order"] = name in COMPARISONS
    asked["unsafe_hash"] = name == "__hash__"
    asked["frozen"] = bool(options.get("frozen")) and name == "__init__"
    asked["slots"] = bool(options.get("slots")) and name == "__init__"
    return getattr(dataclass(**asked)(type(owner.__name__, (), body)), name)


def _copy(one: dataclasses.Field[Any]) -> Any:
    return field(
        default=one.default,
        default_factory=one.default_factory,
        init=one.init,
        repr=one.repr,
        hash=one.hash,
        compare=one.compare,
        kw_only=one.kw_only,
    )


def _with_arguments(owner: Definition, kinds: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The annotations of fields and, in their order, of each `InitVar`, which is an argument and no field."""
    stated = _annotations(owner)
    for name, kind in stated.items():
        if name not in kinds and "InitVar" in str(kind) and (default := getattr(owner, name, MISSING)) is not MISSING:
            body[name] = default
    return {name: kinds.get(name, kind) for name, kind in stated.items() if name in kinds or "InitVar" in str(kind)}


def _annotations(owner: Definition) -> dict[str, Any]:
    stated: dict[str, Any] = {}
    for one in reversed(owner.__mro__):
        stated |= vars(one).get("__annotations__", {}) if dataclasses.is_dataclass(one) else {}
    return stated
