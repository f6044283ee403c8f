"""Versions of files, and which of them a version of the vendor's runtime takes (docs/chips/boards.md)."""

from __future__ import annotations

import re
from typing import TypeAlias

from tpuc.api import Unsupported, UsageError

Version: TypeAlias = tuple[int, int, int]

NEWEST: Version = (1, 4, 0)
"""What the vendor's compiler writes; its runtime has not changed the format since."""
OLDEST: Version = (1, 3, 0)
"""From here on shared and private activations are memories of their own, as they are in every file written here."""

_TEXT = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?")


def parse_version(text: str) -> Version:
    """`1.4` or `1.4.0`; raises UsageError."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--runtime-version: '{text}' is no version; write it as 1.4, as the vendor's programs print it in "
            "'Cvitek Runtime (1.4.0)'."
        )
    major, minor, last = found.groups("0")
    return int(major), int(minor), int(last)


def version_for(text: str) -> Version:
    """The version of files for a runtime: its own, or the newest where it is newer. Raises UsageError for no version,
    Unsupported for a runtime that takes no file of this compiler.
    """
    runtime = parse_version(text)
    if runtime < OLDEST:
        raise Unsupported(
            f"runtime {shown(runtime)} takes no file of this compiler: activations lie as in files from version "
            f"{shown(OLDEST)} on; install a newer libcviruntime.so on the board"
        )
    return (*min(runtime, NEWEST)[:2], 0)


def refusal(file: Version, runtime: Version) -> str | None:
    """Why a runtime does not take a file of a version; None: it does.

    Any file of a smaller major number is taken, else one whose minor number is not above the runtime's.
    """
    if runtime[0] > file[0] or file[1] <= runtime[1]:
        return None
    return f"cvimodel({shown(file)}) is not supported in runtime({shown(runtime)})"


def shown(version: Version) -> str:
    """As the runtime prints it."""
    return f"{version[0]}.{version[1]}"
