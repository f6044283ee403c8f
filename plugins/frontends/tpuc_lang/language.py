"""The functions of TpuLang, from the table beside this file: which are supported, and why others are not."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tpuc_lang.graph import LangError

TABLE = Path(__file__).with_name("language.toml")
BEYOND = "beyond-the-language"
"""The group of functions that only tpuc has."""


@dataclass(frozen=True)
class FunctionGroup:
    """Names of supported functions, and of unsupported ones with the reason."""

    name: str
    here: tuple[str, ...]
    refused: Mapping[str, str]

    @property
    def is_published(self) -> bool:
        """True if the functions belong to the published language."""
        return self.name != BEYOND


@functools.cache
def groups() -> tuple[FunctionGroup, ...]:
    """Return all groups, in the order of the table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(
        FunctionGroup(name, tuple(entry["here"]), dict(entry.get("refused", {}))) for name, entry in table.items()
    )


def refusals() -> Mapping[str, str]:
    """Return the reasons for unsupported functions, by name."""
    return {name: reason for group in groups() for name, reason in group.refused.items()}


def refused(name: str) -> Callable[..., NoReturn] | None:
    """Return the replacement of an unsupported function; it raises LangError with the reason."""
    reason = refusals().get(name)
    if reason is None:
        return None

    def call(*_: Any, **__: Any) -> NoReturn:
        raise LangError(f"{name}: {reason}.")

    call.__name__, call.__doc__ = name, f"Not here: {reason}."
    return call
