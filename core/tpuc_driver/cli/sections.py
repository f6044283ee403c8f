"""Help sections: group options under headings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

R = TypeVar("R")
Function = Callable[..., R]

GENERAL = "General"
"""The section of the global options."""
_ATTRIBUTE = "tpuc_section"


def in_section(title: str, *options: Callable[[Function[Any]], Function[Any]]) -> Callable[[Function[R]], Function[R]]:
    """Add options under a heading, the first one on top. A repeated heading extends the first one."""

    def add(function: Function[R]) -> Function[R]:
        known = {id(one) for one in _options(function)}
        result: Function[Any] = function
        for option in reversed(options):
            result = option(result)
        for one in _options(result):
            if id(one) not in known:
                setattr(one, _ATTRIBUTE, title)
        return result

    return add


def _options(function: Function[Any]) -> list[click.Parameter]:
    return list(getattr(function, "__click_params__", ()))


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> bool:
    """Write the options by section; returns False, and writes nothing, where none has a section."""
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    if not any(hasattr(one, _ATTRIBUTE) for one in options):
        return False
    sections: dict[str, list[tuple[str, str]]] = {"Options": []}
    for one in options:
        record = one.get_help_record(context)
        is_general = one.is_eager and not one.expose_value
        if record is not None:
            title = GENERAL if is_general else str(getattr(one, _ATTRIBUTE, "Options"))
            sections.setdefault(title, []).append(record)
    sections[GENERAL] = sections.pop(GENERAL, [])
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
    return True
