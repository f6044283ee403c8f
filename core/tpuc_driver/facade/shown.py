"""Show networks in notebooks as collapsible tables."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A table under a heading; closed when the page opens."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def html_of(title: str, sections: Sequence[Section]) -> str:
    """A heading and its tables; all text is escaped."""
    return f"<div><strong>{html.escape(title)}</strong>{''.join(map(_table, sections))}</div>"


def _table(section: Section) -> str:
    head = f"<thead>{_row(section.head, 'th')}</thead>" if section.head else ""
    body = "".join(_row(row, "td") for row in section.rows)
    summary = f"<summary>{html.escape(section.title)} ({len(section.rows)})</summary>"
    return f"<details>{summary}<table>{head}<tbody>{body}</tbody></table></details>"


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
