"""Parts of the page: escaped text, tables, tiles, bars."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from tpuc.api import ElementType, TensorType, Uniform


def tile(figure: str, meaning: str) -> str:
    """Return a highlighted figure."""
    return f'<div class="tile"><b>{escape(figure)}</b><span>{escape(meaning)}</span></div>'


def section(name: str, title: str, *parts: str) -> str:
    """Return a section of the page, linked from the header; empty without contents."""
    content = [part for part in parts if part]
    return f'<section id="{name}"><h2>{escape(title)}</h2>\n{"".join(content)}</section>\n' if content else ""


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: Collection[int] = ()) -> str:
    """Return a table of text cells; the columns in `figures` are right-aligned. Empty without rows."""
    kinds = [' class="n"' if column in figures else "" for column in range(len(head))]
    body = "".join(f"<tr>{''.join(map(_cell, kinds, row))}</tr>\n" for row in rows)
    top = "".join(f"<th{kind}>{escape(one)}</th>" for kind, one in zip(kinds, head, strict=True))
    return (
        f'<div class="wide"><table class="plain"><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>\n'
        * bool(body)
    )


def _cell(kind: str, text: str) -> str:
    return f"<td{kind}>{escape(text)}</td>"


def stored(element: ElementType) -> str:
    """Describe how values are stored, in a word."""
    return str(element.storage) if isinstance(element, Uniform) else TensorType((), element).storage.name
