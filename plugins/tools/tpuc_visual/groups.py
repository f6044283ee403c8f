"""Groups of layers that are drawn as one: by the first parts of their names, by region, or by the shape of the graph.

A group is a run of layers that follow each other, so that groups never read each other in a circle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tpuc_visual.graph import Layer

FEW = 12
"""Layers that need no groups."""
GOOD_SIZE = 8
"""Layers of a group, about."""
MANY = 24
"""Layers after which a group ends, wherever that is."""
_PARTS = re.compile(r"[/.:]+")


@dataclass(frozen=True)
class Group:
    """Layers by their numbers, in order; one alone has no name."""

    name: str
    members: tuple[int, ...]


def groupings(layers: Sequence[Layer]) -> dict[str, list[Group]]:
    """Ways to group, by their names; the first one is what a page shows."""
    found: dict[str, list[Group]] = {}
    if len(layers) > FEW:
        by_name = _by_prefix(layers)
        found["groups by name" if by_name else "groups by shape"] = by_name or _by_cut(layers)
    if any(layer.resident for layer in layers):
        found["groups by region"] = _by_region(layers)
    found["single ops"] = [Group("", (number,)) for number in range(len(layers))]
    return found


def _runs(layers: Sequence[Layer], key: Callable[[int], str]) -> list[Group]:
    """Layers that follow each other with one key; an empty key is a layer alone."""
    keys = [(key(number) or f"\0{number}", number) for number in range(len(layers))]
    runs = [(name, tuple(number for _, number in some)) for name, some in groupby(keys, lambda one: one[0])]
    return [Group(name if len(members) > 1 else "", members) for name, members in runs]


def _by_prefix(layers: Sequence[Layer]) -> list[Group]:
    """By as many parts of the names as give groups of a good size; nothing where names do not tell groups."""
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
    """Between places where one value alone leads on, short ones together and long ones cut."""
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
    """Layers that hand their results on in local memory."""
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
