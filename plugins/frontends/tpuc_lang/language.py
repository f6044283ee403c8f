"""The functions of TpuLang, from the table beside this file: which are here, and why the others are not."""

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
"""The group of functions that are ours alone."""


@dataclass(frozen=True)
class FunctionGroup:
    """Names of functions that are here, and of others with the reason."""

    name: str
    here: tuple[str, ...]
    refused: Mapping[str, str]

    @property
    def is_published(self) -> bool:
        """Does the language have them?"""
        return self.name != BEYOND


@functools.cache
def groups() -> tuple[FunctionGroup, ...]:
    """All groups, in the order of the table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(
        FunctionGroup(name, tuple(entry["here"]), dict(entry.get("refused", {}))) for name, entry in table.items()
    )


def refusals() -> Mapping[str, str]:
    """Why a function of the language is not here, by its name."""
    return {name: reason for group in groups() for name, reason in group.refused.items()}


def refused(name: str) -> Callable[..., NoReturn] | None:
    """What stands for a function that is not here: it raises LangError with the reason."""
    reason = refusals().get(name)
    if reason is None:
        return None

    def call(*_: Any, **__: Any) -> NoReturn:
        raise LangError(f"{name}: {reason}.")

    call.__name__, call.__doc__ = name, f"Not here: {reason}."
    return call
