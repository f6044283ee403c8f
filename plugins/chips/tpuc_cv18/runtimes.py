"""File versions, and the versions that each release of the vendor's runtime accepts (docs/chips/boards.md)."""

from __future__ import annotations

import re
from typing import TypeAlias

from tpuc.api import Unsupported, UsageError

Version: TypeAlias = tuple[int, int, int]

NEWEST: Version = (1, 4, 0)
"""The version that the vendor's compiler writes; the runtime has not changed the format since."""
OLDEST: Version = (1, 3, 0)
"""The first version with separate memories for shared and private activations, which every file written here uses."""

_TEXT = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?")


def parse_version(text: str) -> Version:
    """Parse `1.4` or `1.4.0`; raises UsageError for other text."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--runtime-version: '{text}' is not a version; write it as 1.4, as the vendor's programs print it in "
            "'Cvitek Runtime (1.4.0)'."
        )
    major, minor, last = found.groups("0")
    return int(major), int(minor), int(last)


def version_for(text: str) -> Version:
    """The file version for a runtime: the runtime's own, at most `NEWEST`. Raises UsageError for invalid text,
    Unsupported for a runtime that accepts no file of this compiler.
    """
    runtime = parse_version(text)
    if runtime < OLDEST:
        raise Unsupported(
            f"runtime {shown(runtime)} cannot load files of this compiler: their layout of activations needs version "
            f"{shown(OLDEST)}; install a newer libcviruntime.so on the board"
        )
    return (*min(runtime, NEWEST)[:2], 0)


def refusal(file: Version, runtime: Version) -> str | None:
    """Why a runtime rejects a file of that version; None if it accepts the file.

    It accepts any file with a smaller major number, and otherwise a file whose minor number is not above its own.
    """
    if runtime[0] > file[0] or file[1] <= runtime[1]:
        return None
    return f"cvimodel({shown(file)}) is not supported in runtime({shown(runtime)})"


def shown(version: Version) -> str:
    """Format a version as the runtime prints it."""
    return f"{version[0]}.{version[1]}"
