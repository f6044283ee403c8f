"""Small text helpers of the command line."""

from __future__ import annotations

from collections.abc import Sequence


def dashed(name: str) -> str:
    """Command and option names, where `_` and `-` are the same."""
    return name.replace("_", "-")


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text."""
    if not rows:
        return ""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
