"""Parse pass texts: `fuse-relu`, `fuse-relu{keep-limit}`, `tile{axis=h,sizes=[4,8]}` become pass objects.

As in MLIR, blanks may separate options with values: `convert{mode=INT8 chip=newchip}`. A blank belongs to a value where
no option follows it.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tpuc.errors import UsageError

T = TypeVar("T")

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class PassText:
    """A parsed pass text. An option without a value is None."""

    name: str
    options: Mapping[str, str | None]


def parse_pass_text(text: str) -> PassText:
    """Parse `name` or `name{key=value,flag}`; raises UsageError."""
    name, brace, rest = text.strip().partition("{")
    name = name.strip()
    if not name:
        raise UsageError(f"pass text '{text}' has no pass name; write NAME or NAME{{option=value,...}}.")
    if not brace:
        return PassText(name, {})
    if not rest.endswith("}"):
        raise UsageError(f"pass text '{text}' has no closing brace; write NAME or NAME{{option=value,...}}.")
    options: dict[str, str | None] = {}
    for part in split_outside_brackets(rest[:-1], text):
        key, value = _option(part)
        if not key:
            raise UsageError(f"pass text '{text}' has an option without a name; write NAME{{option=value,...}}.")
        if key in options:
            raise _twice(text, key)
        options[key] = value
    return PassText(name, options)


def split_outside_brackets(text: str, whole: str) -> list[str]:
    """Split at commas outside `[...]` and `{...}`; raises UsageError when brackets do not match."""
    parts, depth, start = list[str](), 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth != 0:
        raise UsageError(f"pass text '{whole}' has brackets that do not pair; write lists as [a,b].")
    parts.append(text[start:])
    return parts if parts != [""] else []


def build_object(kind: str, definition: type[T], text: PassText) -> T:
    """Create an object from its text; the options are its fields, and `kind` is its word in messages.

    Raises UsageError for unknown options and unreadable values.
    """
    fields = {field.name.replace("_", "-"): field for field in _fields(definition)}
    hints = typing.get_type_hints(definition)
    values: dict[str, Any] = {}
    for key, value in _between_blanks(text, list(fields)).items():
        if key not in fields:
            raise _unknown_option(f"{kind} '{text.name}'", text.name, key, list(fields))
        values[fields[key].name] = _read(hints[fields[key].name], value, f"{kind} '{text.name}': option {key}")
    for key, field in fields.items():
        if field.name not in values and _is_required(field):
            raise UsageError(f"{kind} '{text.name}' needs option '{key}'; write {text.name}{{{key}=...}}.")
    return definition(**values)


def needs_options(definition: type[Any]) -> bool:
    """True if the class has a field without a default, so that its name alone does not suffice."""
    return any(_is_required(field) for field in _fields(definition))


def _between_blanks(text: PassText, known: list[str]) -> Mapping[str, str | None]:
    """The options of a text, split also at blanks that follow a value."""
    names = "|".join(re.escape(name).replace(r"\-", "[-_]") for name in known)
    options: dict[str, str | None] = {}
    for key, value in text.options.items():
        first, *more = re.split(rf"\s+(?=(?:{names})\s*=)", value) if value and known else [value]
        for name, part in [(key, first), *(_option(one) for one in more if one is not None)]:
            if name in options:
                raise _twice(text.name, name)
            options[name] = part
    return options


def _option(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key.strip().replace("_", "-"), value.strip() if equals else None


def _twice(text: str, key: str) -> UsageError:
    return UsageError(f"pass text '{text}' gives option '{key}' twice; keep one.")


def _fields(definition: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(definition) if dataclasses.is_dataclass(definition) else ()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _unknown_option(what: str, name: str, key: str, known: list[str]) -> UsageError:
    from difflib import get_close_matches

    if not known:
        return UsageError(f"{what} has no option '{key}': it has none at all. Write just {name}.")
    close = get_close_matches(key, known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UsageError(f"{what} has no option '{key}'.{hint} Options: {', '.join(known)}.")


def _read(hint: Any, value: str | None, what: str) -> Any:
    """Convert text to a value of a field's type; `what` begins the error message."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value == "none" and types.NoneType in arguments:
            return None
        return _read(next(argument for argument in arguments if argument is not types.NoneType), value, what)
    if hint is bool:
        return _read_bool(value, what)
    if value is None:
        raise UsageError(f"{what} needs a value; write it as option=value.")
    if origin is typing.Literal:
        if value not in arguments:
            raise UsageError(f"{what} is one of {', '.join(map(str, arguments))}, not '{value}'.")
        return value
    if origin is tuple:
        return _read_tuple(arguments, value, what)
    return _read_plain(hint, value, what)


def _read_bool(value: str | None, what: str) -> bool:
    if value is None:
        return True
    if value.lower() not in _WORDS:
        raise UsageError(f"{what} is true or false, not '{value}'.")
    return _WORDS[value.lower()]


def _read_tuple(arguments: tuple[Any, ...], value: str, what: str) -> tuple[Any, ...]:
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    parts = [part.strip() for part in split_outside_brackets(inner, value)]
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(parts)
    if len(arguments) != len(parts):
        raise UsageError(f"{what} takes {len(arguments)} values, not {len(parts)}; write them as [a,b].")
    return tuple(_read(argument, part, what) for argument, part in zip(arguments, parts, strict=True))


def _read_plain(hint: Any, value: str, what: str) -> Any:
    words = {int: "a whole number", float: "a number", str: "text"}
    if hint not in words:
        raise TypeError(f"{what} has type {hint}, which no text can express")
    try:
        return int(value, 0) if hint is int else hint(value)
    except ValueError as error:
        raise UsageError(f"{what} is {words[hint]}, not '{value}'.") from error
