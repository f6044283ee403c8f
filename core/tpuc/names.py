"""Sentences about names that are not there."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 5
"""Names that a sentence lists."""


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """All names where they are few, else those that are most like the one that was asked for, best first."""
    if len(known) <= LISTED:
        return list(known)
    from difflib import get_close_matches

    return get_close_matches(name, known, n=LISTED, cutoff=0.0)


def listed(name: str, known: Sequence[str]) -> str:
    """For the end of a sentence: all names, or how many there are and the nearest."""
    if len(known) <= LISTED:
        return ", ".join(known)
    return f"{', '.join(nearest(name, known))} and {len(known) - LISTED} more"
