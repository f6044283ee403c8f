"""`tpuc.toml` in the current folder: options per command, and defaults for `--with` and `--prefer`.

with = ["acme"]              # as --with acme
prefer = ["acme-chips"]      # as --prefer acme-chips

[compile]                    # options of one command; paths are relative to the current folder
quantize = "int8"

[pipelines]                  # passes of a stage instead of the usual ones
top-optimize = ["canonicalize", "fold-constants"]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tpuc.errors import UsageError

from tpuc_driver.cli.aliases import command_name
from tpuc_driver.cli.text import dashed

FILE_NAME = "tpuc.toml"


@dataclass(frozen=True)
class Settings:
    """The contents of the file; `commands` by command name, then by option name with dashes."""

    enabled: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    pipelines: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def read_settings(folder: Path, commands: Collection[str]) -> Settings:
    """The settings in a folder, empty when it has none; raises UsageError."""
    path = folder / FILE_NAME
    if not path.is_file():
        return Settings()
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{FILE_NAME}: not valid TOML: {error}. Correct or remove it.") from error
    except (RecursionError, ValueError) as error:  # brackets in brackets, numbers of thousands of digits
        raise UsageError(f"{FILE_NAME}: its values are nested too deeply or are too long. Shorten them.") from error
    enabled, prefer = _names(content.pop("with", []), "with"), _names(content.pop("prefer", []), "prefer")
    stages = _table(content.pop("pipelines", {}), "pipelines")
    pipelines = {stage: _names(passes, f"pipelines.{stage}") for stage, passes in stages.items()}
    tables: dict[str, Mapping[str, Any]] = {}
    for key, value in content.items():
        name = command_name(key)
        if name not in commands:
            raise _unknown("command", key, sorted(commands))
        tables[name] = {dashed(option): given for option, given in _table(value, key).items()}
    return Settings(enabled, prefer, tables, pipelines)


def typed_value(command: str, option: str, value: Any, *, many: bool) -> Any:
    """A value as typed on the command line; raises UsageError for invalid types, and for lists where there is one
    value.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if many and not any(isinstance(item, list | dict) for item in items):
            return [typed_value(command, option, item, many=False) for item in items]
    elif isinstance(value, str):
        if "\0" in value:
            raise UsageError(f"{FILE_NAME}: [{command}] {option} holds a NUL character; leave it out.")
        return value
    elif isinstance(value, bool):
        return str(value).lower()
    elif isinstance(value, int | float):
        return str(value)
    allowed = "text, a number, true, false or a list of these" if many else "text, a number, true or false"
    match value:
        case dict():
            kind = "a table"
        case list():
            kind = "a list"
        case _:
            kind = "a date or time"
    raise UsageError(f"{FILE_NAME}: [{command}] {option} is {kind}; write {allowed}.")


def check_options(command: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise UsageError for an option in the file that the command does not have."""
    for option in given:
        if option not in known:
            raise _unknown("option", option, sorted(known), f"[{command}] ")


def _unknown(kind: str, name: str, known: list[str], place: str = "") -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else f" There are: {', '.join(known)}."
    return UsageError(f"{FILE_NAME}: {place}no {kind} named '{name}'.{hint}")


def _names(value: Any, key: str) -> tuple[str, ...]:
    values: Any = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in cast("list[Any]", values)):
        raise UsageError(
            f'{FILE_NAME}: {key} is not a list of names; write {key.rsplit(".", maxsplit=1)[-1]} = ["NAME"].'
        )
    return tuple(cast("list[str]", values))


def _table(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{FILE_NAME}: {key} is not a table of options; write [{key}] above them.")
    return cast("dict[str, Any]", value)
