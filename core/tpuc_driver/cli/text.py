"""Text helpers of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tpuc.errors import visible

LONGEST_SENTENCE = 490
"""Characters; with the prefix at most 500."""
_LONGEST_NAME, _LONGEST_WORD = 160, 80
_QUOTED = re.compile(rf"'[^']{{{_LONGEST_NAME},}}'")
_WORD = re.compile(rf"[^\s']{{{_LONGEST_WORD},}}")
_CUT = " ... "


def dashed(name: str) -> str:
    """A command or option name with `_` replaced by `-`."""
    return name.replace("_", "-")


def option_name(name: str) -> str:
    """A normalized option or choice: case and `_` or `-` are ignored, except in single-letter options."""
    return dashed(name).lower() if len(name) > 1 else name


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


def sentence(text: str) -> str:
    """One line of at most `LONGEST_SENTENCE` characters: names are shortened first, then the middle."""
    text = _QUOTED.sub(lambda match: f"'{_shortened(match.group()[1:-1], _LONGEST_NAME)}'", visible(text))
    if len(text) > LONGEST_SENTENCE:
        text = _WORD.sub(lambda match: _shortened(match.group(), _LONGEST_WORD), text)
    return _shortened(text, LONGEST_SENTENCE)


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = (most - len(_CUT)) // 3
    return f"{text[: most - len(_CUT) - tail].rstrip()}{_CUT}{text[-tail:].lstrip()}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text."""
    if not rows:
        return ""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
