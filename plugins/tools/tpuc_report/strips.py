"""Bar charts: layers in order, engines over time, memory by purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tpuc.api import Engine
from tpuc_pages.quality import Limits
from tpuc_profile.analysis import Analysis
from tpuc_profile.colors import PALETTE, colors_of

FULL_DB = 60.0
"""SQNR of a full bar."""
COLUMNS = 1000
"""Columns in the picture of an engine."""


def errors(names: Sequence[str], ratios: Sequence[float | None], limits: Limits) -> str:
    """Return bars for the SQNR of every layer that has one, up to 60 dB."""
    bars = [
        _bar(number, FULL_DB - height, height, limits.quality(ratio), f"{name}: {ratio:.1f} dB")
        for number, (name, ratio) in enumerate(zip(names, ratios, strict=True))
        if ratio is not None
        for height in [min(max(ratio, 1.0), FULL_DB)]
    ]
    return _strip(bars, len(names), FULL_DB)


def cycles(names: Sequence[str], compute: Sequence[int], dma: Sequence[int]) -> str:
    """Return stacked bars for the cycles of both engines."""
    most = max((one + other for one, other in zip(compute, dma, strict=True)), default=0) or 1
    bars: list[str] = []
    for number, (name, one, other) in enumerate(zip(names, compute, dma, strict=True)):
        low, high = 60 * one / most, 60 * other / most
        title = f"{name}: compute {one:,}, DMA {other:,} cycles"
        bars += [_bar(number, 60 - low, low, "compute", title), _bar(number, 60 - low - high, high, "dma", title)]
    return _strip(bars, len(names), 60.0)


def _bar(number: int, top: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect class="{kind}" data-row="{number}" x="{number}" width="0.86" y="{top:.2f}" height="{height:.2f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _strip(bars: Sequence[str], count: int, height: float) -> str:
    box = f'viewBox="0 0 {max(1, count)} {height:g}" preserveAspectRatio="none"'
    return f'<svg class="strip" height="64" {box}>{"".join(bars)}</svg>\n'


def engines(analysis: Analysis, names: Sequence[str]) -> str:
    """Return the busiest layer of each engine per time column."""
    colors, total = colors_of(analysis), max(1, analysis.timeline.cycles)
    lanes: list[str] = []
    for engine in sorted(Engine):
        runs = "".join(
            f'<rect x="{first}" width="{last - first}" y="0" height="10" fill="{PALETTE[colors[step]]}">'
            f"<title>{escape(names[step])}</title></rect>"
            for first, last, step in _runs(analysis, engine, total)
        )
        picture = f'<svg viewBox="0 0 {COLUMNS} 10" preserveAspectRatio="none">{runs}</svg>'
        lanes.append(f'<div class="engine"><span class="muted">{engine.name.lower()}</span>{picture}</div>\n')
    ticks = "".join(f"<span>{total * part // 4:,}</span>" for part in range(4))
    return f'{"".join(lanes)}<div class="axis">{ticks}<span>{total:,} cycles</span></div>\n'


def _runs(analysis: Analysis, engine: Engine, total: int) -> list[tuple[int, int, int]]:
    """Yield first column, end column, and step; idle columns are skipped."""
    columns: list[dict[int, int]] = [{} for _ in range(COLUMNS)]
    for entry, step in zip(analysis.timeline.entries, analysis.steps_of, strict=True):
        if entry.command.engine is not engine:
            continue
        low, high = entry.start * COLUMNS, entry.end * COLUMNS  # in 1/total of a column
        for column in range(low // total, -(-high // total)):
            shared = min(high, (column + 1) * total) - max(low, column * total)
            columns[column][step] = columns[column].get(step, 0) + shared
    runs: list[tuple[int, int, int]] = []
    for number, shares in enumerate(columns):
        if 2 * sum(shares.values()) < total:
            continue
        step = max(shares, key=lambda one: (shares[one], -one))
        if runs and runs[-1][1:] == (number, step):
            runs[-1] = (runs[-1][0], number + 1, step)
        else:
            runs.append((number, number + 1, step))
    return runs


def memory(sizes: Mapping[str, int]) -> str:
    """Return the bytes by purpose, with a legend."""
    total, at = sum(sizes.values()) or 1, 0.0
    bars: list[str] = []
    keys: list[str] = []
    for color, (name, size) in zip(PALETTE, sizes.items(), strict=False):
        width = 1000 * size / total
        bars.append(
            f'<rect x="{at:.2f}" width="{width:.2f}" y="0" height="10" fill="{color}">'
            f"<title>{escape(name)}: {size:,} B</title></rect>"
        )
        at += width
        key = f'<svg width="11" height="11"><rect width="11" height="11" rx="3" fill="{color}"/></svg>'
        keys.append(f'<span class="bar">{key} {escape(name)} {size / total:.0%}</span>')
    bar = f'<svg class="memory" viewBox="0 0 1000 10" preserveAspectRatio="none">{"".join(bars)}</svg>\n'
    return f'{bar}<div class="bar keys">{"".join(keys)}</div>\n'
