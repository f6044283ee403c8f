"""The page as one self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from html import escape
from typing import Any

from tpuc_driver.api.page import Data, Markup
from tpuc_pages import page
from tpuc_pages.quality import Limits

from tpuc_visual.drawing import drawings
from tpuc_visual.graph import Layer
from tpuc_visual.pictures import Picture, Weight
from tpuc_visual.rows import aligned
from tpuc_visual.similarity import Alike

FULL_DB = 60.0
"""SQNR of a full bar."""
NOT_THERE = "NA"
Row = tuple[Layer | None, Layer | None]
Weights = Mapping[str, Sequence[Weight]]


@dataclass(frozen=True)
class Networks:
    """What is shown: names of both files, their layers and weights, their similarity (None: not computed yet), and what
    there is to say of the inputs.
    """

    exact_name: str
    quantized_name: str
    exact: Sequence[Layer]
    quantized: Sequence[Layer]
    alike: Mapping[str, Alike] | None = None
    exact_weights: Weights = field(default_factory=dict[str, Sequence[Weight]])
    quantized_weights: Weights = field(default_factory=dict[str, Sequence[Weight]])
    remark: str = ""


def render(networks: Networks) -> str:
    """Return the whole page. Same networks, same bytes."""
    rows = aligned(networks.exact, networks.quantized)
    compared = () if networks.alike is None else networks.alike.values()
    limits = Limits.of(one.sqnr_db for one in compared)
    body = "".join(_row(number, row, networks.alike, limits) for number, row in enumerate(rows))
    fields = {
        "TITLE": f"{networks.exact_name} and {networks.quantized_name}",
        "SUMMARY": ". ".join(filter(None, (_summary(networks), networks.remark))),
        "CHART": Markup(_chart(rows, networks.alike, limits)),
        "ROWS": Markup(body),
        "RUN": Markup("" if networks.alike is not None else '<button id="run">Run both networks</button>'),
        "GRAPHS": Data(_graphs(networks, rows, limits)),
        "DETAILS": Data([_details(networks, row) for row in rows]),
    }
    return page("tpuc_visual", fields)


def _row(number: int, row: Row, alike: Mapping[str, Alike] | None, limits: Limits) -> str:
    one, other = row
    name, shape = _shown_of(row)
    figures = None if alike is None or other is None else alike.get(name)
    cells = _figures(figures, computed=alike is not None and other is not None)
    kind = _quality(figures, limits)
    return (
        f'<tr tabindex="0" class="{kind}" data-row="{number}" data-name="{escape(_searched(row))}">'
        f'<td data-v="{number}"><b>{escape(name)}</b> <i>{escape(shape)}</i></td>'
        f"<td>{_op(one)}</td><td>{_op(other)}</td>{cells}</tr>\n"
    )


def _shown_of(row: Row) -> tuple[str, str]:
    layer = row[1] or row[0]
    assert layer is not None, "a row has a layer on one side at least"
    return layer.name, layer.shape


def _searched(row: Row) -> str:
    return " ".join(f"{layer.name} {layer.op}" for layer in row if layer is not None).lower()


def _op(layer: Layer | None) -> str:
    return "" if layer is None else escape(layer.op)


def _figures(figures: Alike | None, *, computed: bool) -> str:
    if figures is None:
        return f'<td class="n" data-v="">{NOT_THERE if computed else ""}</td>' * 3
    ratio = f'<td class="n db" data-v="{_sortable(figures.sqnr_db)}">{_decibels(figures.sqnr_db)}</td>'
    return f'<td class="n">{figures.cosine:.6f}</td><td class="n">{figures.euclidean:.4f}</td>{ratio}'


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f}"


def _sortable(value: float) -> str:
    return f"{min(max(value, -999.0), 999.0):.3f}"


def _quality(figures: Alike | None, limits: Limits) -> str:
    return limits.quality(None if figures is None else figures.sqnr_db)


def _graphs(networks: Networks, rows: Sequence[Row], limits: Limits) -> dict[str, Any]:
    """Return both networks, the quantized one first: row and label of each layer, and the drawings."""
    return {
        name: {
            "rows": [number for number, row in enumerate(rows) if row[side] is not None],
            "labels": [_label(row[side], networks.alike, limits) for row in rows if row[side] is not None],
            "drawings": drawings([layer for row in rows if (layer := row[side]) is not None]),
        }
        for name, side in (("quantized network", 1), ("float network", 0))
    }


def _label(layer: Layer | None, alike: Mapping[str, Alike] | None, limits: Limits) -> tuple[str, str, str, str]:
    assert layer is not None
    figures = None if alike is None else alike.get(layer.name)
    ratio = "" if figures is None else _decibels(figures.sqnr_db)
    return layer.op.partition(".")[2] or layer.op, layer.name, ratio, _quality(figures, limits)


def _details(networks: Networks, row: Row) -> dict[str, Any]:
    one, other = row
    found: dict[str, Any] = {
        "exact": _side(one, networks.exact_weights),
        "quantized": _side(other, networks.quantized_weights),
    }
    figures = None if other is None or networks.alike is None else networks.alike.get(other.name)
    if figures is not None:
        ranges = [f"{value:.5g}" for value in (*figures.exact_range, *figures.quantized_range)]
        found["ranges"] = ranges
        found["picture"] = None if figures.picture is None else _picture(figures.picture)
    return found


def _side(layer: Layer | None, weights: Weights) -> dict[str, Any] | None:
    if layer is None:
        return None
    return {
        "op": layer.op,
        "stored": layer.element,
        "reads": layer.operands,
        "attributes": layer.attributes,
        "weights": [
            [one.name, one.shape, one.element, f"{one.low:.5g}", f"{one.high:.5g}", one.counts]
            for one in weights.get(layer.name, ())
        ],
    }


def _picture(picture: Picture) -> dict[str, Any]:
    return {
        "low": picture.low,
        "high": picture.high,
        "points": picture.points,
        "exact": picture.exact,
        "quantized": picture.quantized,
        "limits": picture.limits,
        "channels": [
            (index, f"{share:.1%}", _decibels(ratio), f"{low:.4g}", f"{high:.4g}")
            for index, share, ratio, low, high in (astuple(one) for one in picture.channels)
        ],
        "count": picture.channel_count,
    }


def _compared(rows: Iterable[Row], alike: Mapping[str, Alike] | None) -> list[tuple[int, str, Alike]]:
    """Return number, name, and figures of the rows that have any."""
    found = alike or {}
    layers = [(number, other) for number, (_, other) in enumerate(rows) if other is not None]
    return [(number, layer.name, found[layer.name]) for number, layer in layers if layer.name in found]


def _summary(networks: Networks) -> str:
    if networks.alike is None:
        return "not run yet"
    found = _compared(((None, layer) for layer in networks.quantized), networks.alike)
    _, name, worst = min(found, key=lambda one: one[2].sqnr_db)
    missing = len(networks.quantized) - len(found)
    return (
        f"{len(found)} tensors compared, {missing} are not in the float network ({NOT_THERE}); the least similar is "
        f"{name} with {_decibels(worst.sqnr_db)} dB"
    )


def _chart(rows: Sequence[Row], alike: Mapping[str, Alike] | None, limits: Limits) -> str:
    """Return a bar per tensor in network order: its SQNR, up to 60 dB."""
    found = _compared(rows, alike)
    bars = [
        f'<rect class="{_quality(one, limits)}" data-row="{row}" x="{index}" width="0.86" y="{60 - height}" '
        f'height="{height}">'
        f"<title>{escape(name)}: {_decibels(one.sqnr_db)} dB</title></rect>"
        for index, (row, name, one) in enumerate(found)
        for height in [round(min(max(one.sqnr_db, 1.0), FULL_DB), 1)]
    ]
    box = f'viewBox="0 0 {max(1, len(found))} 60" preserveAspectRatio="none"'
    legend = f'<div class="muted">SQNR, up to 60 dB: {limits.legend()}</div>'
    return f'{legend}<svg class="strip" {box}>{"".join(bars)}</svg>' if bars else ""
