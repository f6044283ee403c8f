"""Tables: fitted to the terminal width, tab-separated in a pipe or file, aligned elsewhere."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from tpuc.errors import visible

from tpuc_driver.cli.streams import Shown
from tpuc_driver.cli.text import columns

if TYPE_CHECKING:
    from rich.text import Text

Rows = Sequence[Sequence[str]]
Mark = Callable[[Sequence[str]], str]
"""The color of a row: `red` or `yellow` for attention, none for others."""
GAP, FEW_LETTERS = 2, 8
"""Spaces between columns; the width of text columns below which numbers are truncated instead."""
_NUMBER = re.compile(r"[-+]?[\d,.]+(?:e[-+]?\d+)?(?: ?(?:%|dB|B|ms|s))?|-|inf|nan")


def reader_of(stream: TextIO) -> Literal["terminal", "program", "text"]:
    """The kind of reader: a terminal, a pipe or file, or something else, such as a notebook."""
    if stream.isatty():
        return "terminal"
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return "text"
    return "program" if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else "text"


def write_table(stream: TextIO, rows: Rows, mark: Mark | None = None, *, has_head: bool = True) -> None:
    """Write a table; the first row is the header."""
    if not rows:
        return
    shown = [[visible(cell) for cell in row] for row in rows]
    reader = reader_of(stream)
    if reader == "terminal":
        text = fitted(shown, shutil.get_terminal_size().columns, mark, has_head=has_head, is_plain=_is_plain())
        stream.write_styled(text) if isinstance(stream, Shown) else stream.write(text)
    elif reader == "program":
        stream.write("".join("\t".join(row) + "\n" for row in shown))
    else:
        stream.write(columns(rows) + "\n")


def fitted(rows: Rows, width: int, mark: Mark | None = None, *, has_head: bool = True, is_plain: bool = False) -> str:
    """A table of at most this width: the widest text columns are truncated with an ellipsis first."""
    from rich.console import Console
    from rich.table import Table

    head, body = (rows[0], rows[1:]) if has_head else ([""] * len(rows[0]), rows)
    table = Table(box=None, show_header=has_head, header_style="bold", padding=(0, GAP, 0, 0), pad_edge=False)
    numeric = [
        bool(body) and all(_NUMBER.fullmatch(row[place]) or not row[place] for row in body)
        for place in range(len(head))
    ]
    for name, is_number, size in zip(head, numeric, _widths(rows, numeric, width), strict=True):
        table.add_column(
            _plain(name), justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis", width=size
        )
    for row in body:
        table.add_row(*map(_plain, row), style=mark(row) if mark is not None else "")
    out = io.StringIO()
    system: Literal["standard"] | None = None if is_plain else "standard"
    Console(file=out, width=width, force_terminal=not is_plain, color_system=system, highlight=False).print(table)
    lines = out.getvalue().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _widths(rows: Rows, numeric: Sequence[bool], width: int) -> list[int]:
    """Column widths that fit: the widest text column shrinks first, down to a few letters, then any."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(numeric))]
    spare = width - GAP * len(widths)
    while sum(widths) > spare and max(widths) > 1:
        words = [size for size, is_number in zip(widths, numeric, strict=True) if not is_number and size > FEW_LETTERS]
        widest = max(words or widths)
        place = next(place for place, size in enumerate(widths) if size == widest and not (words and numeric[place]))
        widths[place] -= 1
    return widths


def _plain(cell: str) -> Text:
    from rich.text import Text

    return Text(cell)


def _is_plain() -> bool:
    """True if the user wants no colors."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
