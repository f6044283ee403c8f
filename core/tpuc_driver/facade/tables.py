"""Rich results of measurements: tables for notebooks and pandas, and pages."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, overload

from tpuc.files import write_atomic

from tpuc_driver.cli.text import columns

Row = Mapping[str, Any]
HEIGHT = 640
"""Height of a page in a notebook, in pixels."""


@dataclass(frozen=True, repr=False)
class Table(Sequence[Row]):
    """Rows with the same columns. `pandas.DataFrame(table.to_dicts())` takes them; notebooks show them as a table.

    `title` is a sentence about all of them; `data` contains all measurements, as JSON values.
    """

    title: str
    rows: tuple[Row, ...]
    data: Any = None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every row as a new dictionary of JSON values."""
        return [dict(row) for row in self.rows]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def _cells(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return [names, *([shown(row.get(name)) for name in names] for row in self.rows)] if names else []

    def __repr__(self) -> str:
        return "\n".join(part for part in (columns(self._cells()), self.title) if part)

    def _repr_html_(self) -> str:
        cells = self._cells()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in cells[0]) if cells else ""
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells[1:])
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if cells else ""
        return f"<div>{table}<p>{html.escape(self.title)}</p></div>"


@dataclass(frozen=True, repr=False)
class Page:
    """A self-contained HTML page. Notebooks show it in a frame."""

    name: str
    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page; returns its path."""
        target = Path(path)
        write_atomic(target, self.html)
        return target

    def __repr__(self) -> str:
        return f"{self.name}: a page of {len(self.html):,} characters; write it with .save('{self.name}.html')"

    def _repr_html_(self) -> str:
        source = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="{HEIGHT}" sandbox="allow-scripts"></iframe>'


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one row, with dots in the names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def shown(value: Any) -> str:
    """A cell as text."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
