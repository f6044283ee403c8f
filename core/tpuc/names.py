"""Suggestions for unknown names in messages."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 5
"""Number of names listed in a message."""


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """All names where there are few, else the most similar ones, best first."""
    if len(known) <= LISTED:
        return list(known)
    from difflib import get_close_matches

    return get_close_matches(name, known, n=LISTED, cutoff=0.0)


def listed(name: str, known: Sequence[str]) -> str:
    """The end of a message: all names, or their number and the nearest ones."""
    if len(known) <= LISTED:
        return ", ".join(known)
    return f"{', '.join(nearest(name, known))} and {len(known) - LISTED} more"
