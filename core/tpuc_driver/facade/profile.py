"""The latency of a compiled network as figures and as a picture."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api.chip import Chip, LoadedModel
from tpuc.api.planning import LayerCommands
from tpuc.machine import Engine, Timeline
from tpuc.registry import Registry

from tpuc_driver.facade.shown import Section, html_of
from tpuc_driver.session import ProfileReport
from tpuc_driver.session.processor import on_processor
from tpuc_driver.session.running import profile_report

WIDTH, LANE, LEFT, TOP = 880, 34, 80, 26
NAMED_LAYERS, LINE, LETTER = 16, 18, 7
"""Largest number of layers with a legend; height of its lines and width of a letter in pixels."""
COLORS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5")
"""Colors assigned to layers in turn, so that neighbors differ; visible on light and dark backgrounds."""


@dataclass(frozen=True)
class Span:
    """An engine's work from one cycle to another for a layer; the layer is empty where unknown."""

    layer: str
    start: int
    end: int


@dataclass(frozen=True, repr=False)
class Profile:
    """The timeline of a compiled network. `report` has the figures; `spans` are those of each engine in order."""

    report: ProfileReport
    layers: tuple[str, ...]
    spans: Mapping[str, tuple[Span, ...]]

    @property
    def cycles(self) -> int:
        """From the first command to the end of the last one."""
        return self.report.cycles

    @property
    def milliseconds(self) -> float:
        """At the chip's clock."""
        return self.report.milliseconds

    @property
    def cycles_by_layer(self) -> dict[str, dict[str, int]]:
        """The cycles of each engine by layer; empty where the layers are unknown."""
        found = {layer: dict.fromkeys(self.spans, 0) for layer in self.layers}
        for engine, spans in self.spans.items():
            for span in spans:
                if span.layer in found:
                    found[span.layer][engine] += span.end - span.start
        return found

    def to_svg(self) -> str:
        """A self-contained picture of the engines over time, colored by layer."""
        axis = TOP + len(self.spans) * (LANE + 8)
        colors = {layer: COLORS[index % len(COLORS)] for index, layer in enumerate(self.layers)}
        lanes = [
            _lane(engine, TOP + number * (LANE + 8), spans, self.cycles, colors)
            for number, (engine, spans) in enumerate(self.spans.items())
        ]
        legend, height = _legend(colors, axis + 40)
        report = self.report
        time = f"{report.milliseconds:.3f} ms{on_processor(report.host_functions)}"
        title = f"{report.cycles:,} cycles = {time} on {report.chip} ('{report.profile}')"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">\n'
            f"<title>{html.escape(title)}</title>\n{_STYLE}"
            f'<text x="{LEFT}" y="16">{html.escape(title)}</text>\n'
            f"{''.join(lanes)}{_axis(axis + 4, self.cycles)}{legend}</svg>\n"
        )

    def to_html(self) -> str:
        """The picture, and the cycles of every layer in a collapsible table."""
        rows = [
            (layer, *(f"{cycles:,}" for cycles in engines.values())) for layer, engines in self.cycles_by_layer.items()
        ]
        table = html_of("", [Section("Cycles by layer", ("layer", *self.spans), rows)]) if rows else ""
        return f"<figure>{self.to_svg()}</figure>{table}"

    def __repr__(self) -> str:
        return self.report.text()

    def _repr_html_(self) -> str:
        return self.to_html()


_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#555}.ground{fill:#8882}line{stroke:#888}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}}</style>\n"
)


def make_profile(
    registry: Registry,
    name: str,
    chip: Chip,
    loaded: LoadedModel,
    profile: str | None,
    layers: Sequence[LayerCommands],
) -> Profile:
    """The profile of a loaded file; raises UsageError for a chip without a timing model, and for an unknown profile.

    `layers` are those of the file's memory plan, empty where unknown.
    """
    report = profile_report(registry, Path(name), chip, loaded, profile)
    return Profile(
        report, tuple(one.name for one in layers if one.commands), _spans(loaded.timeline(report.profile), layers)
    )


def _spans(timeline: Timeline, layers: Sequence[LayerCommands]) -> dict[str, tuple[Span, ...]]:
    owners = {
        (engine, number): layer.name
        for layer in layers
        for engine, ranges in layer.commands.items()
        for first, last in ranges
        for number in range(first, last + 1)
    }
    spans: dict[str, list[Span]] = {engine.name.lower(): [] for engine in Engine}
    for entry in timeline.entries:
        engine = entry.command.engine.name.lower()
        layer = owners.get((engine, len(spans[engine]) + 1), "")
        spans[engine].append(Span(layer, entry.start, entry.end))
    return {engine: tuple(found) for engine, found in spans.items()}


def _lane(engine: str, y: int, spans: Sequence[Span], cycles: int, colors: Mapping[str, str]) -> str:
    name = f'<text x="{LEFT - 8}" y="{y + LANE / 2 + 4:g}" text-anchor="end">{html.escape(engine)}</text>\n'
    parts = [name, f'<rect class="ground" x="{LEFT}" y="{y}" width="{WIDTH}" height="{LANE}"/>\n']
    for first, last, layer in _drawn(spans, cycles):
        color = colors.get(layer, COLORS[0])
        parts.append(
            f'<rect x="{LEFT + first}" y="{y}" width="{last - first}" height="{LANE}" fill="{color}">'
            f"<title>{html.escape(layer or engine)}</title></rect>\n"
        )
    return "".join(parts)


def _drawn(spans: Sequence[Span], cycles: int) -> list[tuple[int, int, str]]:
    """First and last column and the layer of each run of equal columns; a column shows the layer with most of its
    time.
    """
    if not cycles:
        return []
    columns: list[dict[str, int]] = [{} for _ in range(WIDTH)]
    for span in spans:
        low, high = span.start * WIDTH, span.end * WIDTH  # in 1/cycles of a column
        for column in range(low // cycles, -(-high // cycles)):
            shared = min(high, (column + 1) * cycles) - max(low, column * cycles)
            columns[column][span.layer] = columns[column].get(span.layer, 0) + shared
    runs: list[tuple[int, int, str]] = []
    for number, shares in enumerate(columns):
        if not shares or 2 * sum(shares.values()) < cycles:
            continue  # idle for the larger part
        layer = max(shares, key=lambda one: (shares[one], one))
        if runs and runs[-1][1] == number and runs[-1][2] == layer:
            runs[-1] = (runs[-1][0], number + 1, layer)
        else:
            runs.append((number, number + 1, layer))
    return runs


def _legend(colors: Mapping[str, str], y: int) -> tuple[str, int]:
    """Colors of few layers, line by line from `y`, and the bottom of the picture."""
    if len(colors) > NAMED_LAYERS:
        return "", y
    parts: list[str] = []
    x = LEFT
    for layer, color in colors.items():
        width = (len(layer) + 4) * LETTER
        if x > LEFT and x + width > LEFT + WIDTH:
            x, y = LEFT, y + LINE
        parts.append(
            f'<rect class="key" x="{x}" y="{y - 10}" width="10" height="10" fill="{color}"/>'
            f'<text x="{x + 14}" y="{y}">{html.escape(layer)}</text>\n'
        )
        x += width
    return "".join(parts), y + (LINE if parts else 0)


def _axis(y: int, cycles: int) -> str:
    ticks = [
        f'<line x1="{LEFT + WIDTH * step // 4}" x2="{LEFT + WIDTH * step // 4}" y1="{y - 4}" y2="{y}"/>'
        f'<text x="{LEFT + WIDTH * step // 4}" y="{y + 14}" text-anchor="{"end" if step == 4 else "middle"}">'
        f"{cycles * step // 4:,}{' cycles' if step == 4 else ''}</text>\n"
        for step in range(5)
    ]
    return f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y - 4}" y2="{y - 4}"/>\n{"".join(ticks)}'
