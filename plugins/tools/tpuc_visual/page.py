"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from tpuc.api.page import Markup, fill_page

from tpuc_visual.graph import Layer
from tpuc_visual.lanes import Drawn, aligned, draw, width
from tpuc_visual.similarity import Alike

LANE, ROW = 14, 30  # pixels
GOOD_DB, FAIR_DB = 30.0, 15.0
"""Signal over error from which a tensor is green and yellow: errors of 3 % and 18 % of the values."""
NOT_THERE = "NA"


@dataclass(frozen=True)
class Networks:
    """What is shown: names of both files, their layers, and how alike they are (None: not computed yet)."""

    exact_name: str
    quantised_name: str
    exact: Sequence[Layer]
    quantised: Sequence[Layer]
    alike: Mapping[str, Alike] | None = None


def render(networks: Networks) -> str:
    """The whole page. Same networks, same bytes."""
    rows = aligned(networks.exact, networks.quantised)
    left, right = draw([one for one, _ in rows]), draw([other for _, other in rows])
    sizes = width(left), width(right)
    body = "".join(
        _row(one, other, left[index], right[index], sizes, networks.alike) for index, (one, other) in enumerate(rows)
    )
    fields = {
        "TITLE": f"{networks.exact_name} and {networks.quantised_name}",
        "EXACT": networks.exact_name,
        "QUANTISED": networks.quantised_name,
        "SUMMARY": _summary(networks),
        "CHART": Markup(_chart(networks)),
        "ROWS": Markup(body),
        "RUN": Markup("" if networks.alike is not None else '<button id="run">Run both networks</button>'),
    }
    return fill_page(template(), fields)


def template() -> str:
    """The page without networks."""
    return files("tpuc_visual").joinpath("page.html").read_text(encoding="utf-8")


def _row(
    one: Layer | None,
    other: Layer | None,
    left: Drawn,
    right: Drawn,
    sizes: tuple[int, int],
    alike: Mapping[str, Alike] | None,
) -> str:
    name = (other or one or _NOBODY).name
    figures = None if alike is None or other is None else alike.get(name)
    worst = f' data-db="{_sortable(figures.sqnr_db)}"' if figures is not None else ""
    cells = _figures(figures, computed=alike is not None and other is not None)
    return (
        f'<tr class="{_quality(figures)}" data-name="{escape(name.lower())}"{worst}>'
        f"<td>{_svg(left, sizes[0])}</td><td>{_layer(one)}</td>{cells}"
        f"<td>{_svg(right, sizes[1])}</td><td>{_layer(other)}{_ranges(figures)}</td></tr>\n"
    )


_NOBODY = Layer("", "", "", "", (), ())


def _layer(layer: Layer | None) -> str:
    if layer is None:
        return ""
    details = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in layer.attributes)
    reads = escape(", ".join(layer.operands)) or "nothing"
    return (
        f"<details><summary><b>{escape(layer.op)}</b> {escape(layer.name)} <i>{escape(layer.shape)}</i></summary>"
        f"<dl><dt>stored as</dt><dd>{escape(layer.element)}</dd><dt>reads</dt><dd>{reads}</dd>{details}</dl></details>"
    )


def _ranges(figures: Alike | None) -> str:
    if figures is None:
        return ""
    low, high = figures.exact_range
    got_low, got_high = figures.quantised_range
    return f'<div class="ranges">float {low:.5g} to {high:.5g}; here {got_low:.5g} to {got_high:.5g}</div>'


def _figures(figures: Alike | None, *, computed: bool) -> str:
    if figures is None:
        return f"<td>{NOT_THERE}</td>" * 3 if computed else "<td></td>" * 3
    return f"<td>{figures.cosine:.6f}</td><td>{figures.euclidean:.4f}</td><td>{_decibels(figures.sqnr_db)}</td>"


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f}"


def _sortable(value: float) -> str:
    return f"{min(max(value, -999.0), 999.0):.3f}"


def _quality(figures: Alike | None) -> str:
    if figures is None:
        return "none"
    if figures.sqnr_db >= GOOD_DB:
        return "good"
    return "fair" if figures.sqnr_db >= FAIR_DB else "poor"


def _svg(drawn: Drawn, lanes: int) -> str:
    """The lines of a row, and a dot for its layer."""
    heights = (0, ROW // 2, ROW)
    x = [LANE // 2 + LANE * lane for lane in range(lanes)]
    lines = "".join(
        f'<path d="M{x[s.from_lane]} {heights[s.from_height]}L{x[s.to_lane]} {heights[s.to_height]}"/>'
        for s in drawn.strokes
    )
    dot = "" if drawn.lane is None else f'<circle cx="{x[drawn.lane]}" cy="{ROW // 2}" r="4"/>'
    return f'<svg width="{LANE * lanes}" height="{ROW}">{lines}{dot}</svg>'


def _compared(networks: Networks) -> list[tuple[str, Alike]]:
    alike = networks.alike or {}
    return [(layer.name, alike[layer.name]) for layer in networks.quantised if layer.name in alike]


def _summary(networks: Networks) -> str:
    if networks.alike is None:
        return "not run yet"
    found = _compared(networks)
    name, worst = min(found, key=lambda one: one[1].sqnr_db)
    missing = len(networks.quantised) - len(found)
    return (
        f"{len(found)} tensors compared, {missing} are not in the float network ({NOT_THERE}); "
        f"the least alike is {name} with {_decibels(worst.sqnr_db)} dB"
    )


def _chart(networks: Networks) -> str:
    """A bar per tensor in the order of the network: its SQNR, up to 60 dB."""
    found = _compared(networks)
    bars = [
        f'<rect class="{_quality(one)}" x="{index * 4}" width="3" y="{90 - height}" height="{height}">'
        f"<title>{escape(name)}: {_decibels(one.sqnr_db)} dB</title></rect>"
        for index, (name, one) in enumerate(found)
        for height in [round(1.5 * min(max(one.sqnr_db, 1.0), 60.0))]
    ]
    return f'<svg class="chart" width="{4 * len(found)}" height="90">{"".join(bars)}</svg>' if bars else ""
