"""Group the layers of large networks into blocks that a picture can show, by the beginnings of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

MANY = 150
"""Layers from which a picture is grouped: narrower ones than eight pixels have no name in it."""
MOST = 40
"""Groups that a picture has room for."""
SMALL = 3
"""Neighboring layers with another beginning, up to which they count to the group before them."""


class Group(NamedTuple):
    """Neighboring layers from `first` to `last`."""

    name: str
    first: int
    last: int


def groups_of(names: Sequence[str]) -> list[Group]:
    """The finest grouping by whole parts of names (`/model.2/cv1` is in `model.2`) that has room; without one, groups
    of equally many layers. None for networks of few layers.
    """
    if len(names) <= MANY:
        return []
    parts = [re.split(r"[/.]+", name.strip("/.")) for name in names]
    for depth in range(max(map(len, parts)), 0, -1):
        found = _groups(["/".join(one[:depth]) for one in parts])
        if 1 < len(found) <= MOST:
            return found
    size = -(-len(names) // MOST)
    starts = range(0, len(names), size)
    return [Group(f"{names[first]} ...", first, min(first + size, len(names)) - 1) for first in starts]


def _groups(beginnings: Sequence[str]) -> list[Group]:
    found: list[Group] = []
    at = 0
    for name, run in groupby(beginnings):
        first, at = at, at + len([*run])
        is_same = bool(found) and found[-1].name == name
        if found and (is_same or at - first <= SMALL):
            found[-1] = found[-1]._replace(last=at - 1)
        else:
            found.append(Group(name, first, at - 1))
    return found
