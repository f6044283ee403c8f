"""The graph of a network: collapsible groups, and a layout for each way of grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc_visual.graph import Layer
from tpuc_visual.groups import Group, groupings
from tpuc_visual.layout import Layout, place

Edge = tuple[int, int]


def drawings(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return, for each grouping, the groups and their layout, and the layers within each group and their layout."""
    edges = _edges(layers)
    return {name: _drawing(groups, edges) for name, groups in groupings(layers).items()}


def _edges(layers: Sequence[Layer]) -> list[Edge]:
    numbers = {layer.name: number for number, layer in enumerate(layers)}
    found = [
        (numbers[operand], number)
        for number, layer in enumerate(layers)
        for operand in layer.operands
        if numbers.get(operand, number) < number
    ]
    return [*dict.fromkeys(found)]


def _drawing(groups: Sequence[Group], edges: Sequence[Edge]) -> dict[str, Any]:
    group_of = {member: number for number, group in enumerate(groups) for member in group.members}
    outer = [(group_of[one], group_of[other]) for one, other in edges if group_of[one] != group_of[other]]
    outer = [*dict.fromkeys(outer)]
    inner: dict[int, list[Edge]] = {}
    for edge in edges:
        for group in dict.fromkeys(group_of[end] for end in edge):
            inner.setdefault(group, []).append(edge)
    return {
        "level": _level(place(len(groups), outer), outer),
        "groups": [
            {"name": group.name, "members": group.members}
            | ({"level": _inside(group, inner.get(number, []))} if len(group.members) > 1 else {})
            for number, group in enumerate(groups)
        ],
    }


def _inside(group: Group, edges: Sequence[Edge]) -> dict[str, Any]:
    """Return the members between two ports: values from outside enter at the first node, and values to outside leave at
    the last.
    """
    places = {member: number for number, member in enumerate(group.members, 1)}
    way_out = len(places) + 1
    own = [(places.get(one, 0), places.get(other, way_out)) for one, other in edges]
    own = [*dict.fromkeys(own)]
    return _level(place(way_out + 1, own), own)


def _level(layout: Layout, edges: Sequence[Edge]) -> dict[str, Any]:
    return {
        "nodes": [*zip(layout.rows, layout.xs, strict=True)],
        "bends": [(bend.source, bend.row, bend.x) for bend in layout.bends],
        "edges": edges,
    }
