"""Warnings of libraries as sentences."""

from __future__ import annotations

from pathlib import Path

_OURS = "tpuc"


class TpucWarning(UserWarning):
    """Base of every warning of ours: one sentence."""


class LeftOut(TpucWarning):
    """A plugin that cannot be used, and that nobody asked for, is left out; a sentence of our own."""


def warning_sentence(message: Warning | str, filename: str) -> str:
    """Who warns, and of what. What numpy's C code finds is reported at the place in our code that called it."""
    if isinstance(message, LeftOut):
        return str(message)
    parts = Path(filename).parts
    place = next((index for index, part in enumerate(parts) if part in ("site-packages", "dist-packages")), None)
    package = parts[place + 1].partition(".")[0] if place is not None and place + 1 < len(parts) else _OURS
    who = "numpy" if package.startswith(_OURS) or place is None else package
    return f"{who}: {' '.join(str(message).split())}"
