"""A network drawn along a column: a line per value from the layer that makes it to the last one that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc_visual.graph import Layer


@dataclass(frozen=True)
class Stroke:
    """A line within a row, from a lane at one height to a lane at another: 0 is the top, 1 the middle, 2 the bottom."""

    from_lane: int
    from_height: int
    to_lane: int
    to_height: int


@dataclass(frozen=True)
class Drawn:
    """What a row shows: lines, and the lane of its layer (None: the network has none in this row)."""

    strokes: tuple[Stroke, ...]
    lane: int | None


def draw(rows: Sequence[Layer | None]) -> list[Drawn]:
    """One drawing per row."""
    last = {operand: index for index, layer in enumerate(rows) if layer is not None for operand in layer.operands}
    lanes: list[str | None] = []
    drawn: list[Drawn] = []
    for index, layer in enumerate(rows):
        if layer is None:
            drawn.append(Drawn(tuple(Stroke(lane, 0, lane, 2) for lane, value in enumerate(lanes) if value), None))
            continue
        read = [lane for lane, value in enumerate(lanes) if value in layer.operands]
        before = list(lanes)
        for lane in read:
            if last[str(before[lane])] <= index:
                lanes[lane] = None
        own = _free_lane(lanes)
        strokes = [Stroke(lane, 0, own, 1) for lane in read]
        strokes += [Stroke(lane, 0, lane, 2) for lane, value in enumerate(lanes) if value is not None]
        if last.get(layer.name, -1) > index:
            lanes[own] = layer.name
            strokes.append(Stroke(own, 1, own, 2))
        drawn.append(Drawn(tuple(strokes), own))
    return drawn


def width(drawn: Sequence[Drawn]) -> int:
    """How many lanes are used."""
    used = [max(stroke.from_lane, stroke.to_lane) for row in drawn for stroke in row.strokes]
    return max([*used, *(row.lane for row in drawn if row.lane is not None)], default=0) + 1


def _free_lane(lanes: list[str | None]) -> int:
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


def aligned(exact: Sequence[Layer], quantised: Sequence[Layer]) -> list[tuple[Layer | None, Layer | None]]:
    """Layers of both networks row by row, those of one name beside each other as far as the orders allow."""
    places = {layer.name: index for index, layer in enumerate(exact)}
    rows: list[tuple[Layer | None, Layer | None]] = []
    done = 0
    for layer in quantised:
        place = places.get(layer.name, -1)
        if place < done:
            rows.append((None, layer))
            continue
        rows += [(one, None) for one in exact[done:place]]
        rows.append((exact[place], layer))
        done = place + 1
    return rows + [(one, None) for one in exact[done:]]
