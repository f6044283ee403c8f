"""Parts of the page: escaped text, tables, tiles, bars."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from tpuc.api import ElementType, TensorType, Uniform


def tile(figure: str, meaning: str) -> str:
    """A figure that stands out."""
    return f'<div class="tile"><b>{escape(figure)}</b><span>{escape(meaning)}</span></div>'


def section(name: str, title: str, *parts: str) -> str:
    """A part of the page, to which the head leads by its name; nothing where there is nothing to tell."""
    told = [part for part in parts if part]
    return f'<section id="{name}"><h2>{escape(title)}</h2>\n{"".join(told)}</section>\n' if told else ""


def paragraph(text: str) -> str:
    """Text."""
    return f"<p>{escape(text)}</p>\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: Collection[int] = ()) -> str:
    """Cells are text, those in the columns `figures` to the right. Nothing where there are no rows."""
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
    """How values are stored, in a word."""
    return str(element.storage) if isinstance(element, Uniform) else TensorType((), element).storage.name
