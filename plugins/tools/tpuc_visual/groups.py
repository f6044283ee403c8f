"""Group layers that are drawn as one: by name prefix, by region, or by the shape of the graph.

A group is a run of consecutive layers, so groups never depend on each other in a cycle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tpuc_visual.graph import Layer

FEW = 12
"""Networks with fewer layers need no groups."""
GOOD_SIZE = 8
"""Approximate number of layers in a group."""
MANY = 24
"""Maximum number of layers in a group."""
_PARTS = re.compile(r"[/.:]+")


@dataclass(frozen=True)
class Group:
    """Layers by number, in order; a single layer has no name."""

    name: str
    members: tuple[int, ...]


def groupings(layers: Sequence[Layer]) -> dict[str, list[Group]]:
    """Return ways to group, by name; a page shows the first one initially."""
    found: dict[str, list[Group]] = {}
    if len(layers) > FEW:
        by_name = _by_prefix(layers)
        found["groups by name" if by_name else "groups by shape"] = by_name or _by_cut(layers)
    if any(layer.resident for layer in layers):
        found["groups by region"] = _by_region(layers)
    found["single ops"] = [Group("", (number,)) for number in range(len(layers))]
    return found


def _runs(layers: Sequence[Layer], key: Callable[[int], str]) -> list[Group]:
    """Group consecutive layers with the same key; a layer with an empty key is alone."""
    keys = [(key(number) or f"\0{number}", number) for number in range(len(layers))]
    runs = [(name, tuple(number for _, number in some)) for name, some in groupby(keys, lambda one: one[0])]
    return [Group(name if len(members) > 1 else "", members) for name, members in runs]


def _by_prefix(layers: Sequence[Layer]) -> list[Group]:
    """Group by a name prefix whose length gives groups of a good size; nothing if names do not separate groups."""
    parts = [[part for part in _PARTS.split(layer.name) if part] for layer in layers]
    best: list[Group] = []
    for depth in range(1, max(map(len, parts))):
        runs = _runs(layers, lambda number, depth=depth: ".".join(parts[number][:-1][:depth]))
        grouped = sum(len(group.members) for group in runs if group.name)
        wanted = len(layers) / GOOD_SIZE
        if 2 * grouped >= len(layers) and (not best or abs(len(runs) - wanted) < abs(len(best) - wanted)):
            best = runs
    return best if len(best) > 1 else []


def _by_cut(layers: Sequence[Layer]) -> list[Group]:
    """Group between positions where a single value is live; short groups are merged and long ones split."""
    last = {operand: number for number, layer in enumerate(layers) for operand in layer.operands}
    live: set[str] = set()
    groups: list[Group] = []
    members: list[int] = []
    for number, layer in enumerate(layers):
        members.append(number)
        live = {value for value in {*live, layer.name} if last.get(value, -1) > number}
        is_cut = len(live) <= 1 and len(members) >= GOOD_SIZE
        if is_cut or len(members) == MANY or number == len(layers) - 1:
            name = f"{layers[members[0]].name} to {layer.name}" if len(members) > 1 else ""
            groups.append(Group(name, tuple(members)))
            members = []
    return groups


def _by_region(layers: Sequence[Layer]) -> list[Group]:
    """Group layers that pass their results through local memory."""
    regions: dict[str, str] = {}
    for layer in layers:
        before = next((regions[name] for name in layer.resident if name in regions), "")
        regions[layer.name] = before or layer.name
    sizes: dict[str, int] = {}
    for region in regions.values():
        sizes[region] = sizes.get(region, 0) + 1

    def key(number: int) -> str:
        region = regions[layers[number].name]
        return f"region of {region}" if sizes[region] > 1 else ""

    return _runs(layers, key)
