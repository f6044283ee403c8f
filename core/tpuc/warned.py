"""Warnings as sentences."""

from __future__ import annotations

from pathlib import Path

_OURS = "tpuc"


class TpucWarning(UserWarning):
    """Base of all warnings of tpuc: one sentence."""


class LeftOut(TpucWarning):
    """An unusable plugin that was not requested by name was skipped."""


def warning_sentence(message: Warning | str, filename: str) -> str:
    """The library that warns, and its message. Warnings from numpy's C code are attributed to the line of our code that
    called it.
    """
    if isinstance(message, LeftOut):
        return str(message)
    parts = Path(filename).parts
    place = next((index for index, part in enumerate(parts) if part in ("site-packages", "dist-packages")), None)
    package = parts[place + 1].partition(".")[0] if place is not None and place + 1 < len(parts) else _OURS
    who = "numpy" if package.startswith(_OURS) or place is None else package
    return f"{who}: {' '.join(str(message).split())}"
