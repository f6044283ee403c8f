"""Entry-point groups: the word for their names in messages, and the kind of object they hold."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, cast

API_VERSION = 1
"""The only `api_version` of plugin objects that this compiler supports."""


@dataclass(frozen=True)
class Group:
    """One entry-point group.

    `kind` is the word for one of its names in a message. `base` is the class of its objects (or their superclass, when
    `is_class`), as `module:Class`; None allows any. `owners` is the group of the first part of a table's name
    (`<chip>.<dialect>`), None where entries are not tables. `states` is the attribute in which an object states its own
    name, empty where there is none. Commands that search for a matching entry read `lists`, an attribute with several
    strings, and `holds`, an attribute and its class as `module:Class`.
    """

    api_version: ClassVar[int] = 1
    name: str
    kind: str
    base: str | None = None
    is_class: bool = False
    owners: str | None = None
    states: str = ""
    lists: str = ""
    holds: tuple[str, str] | None = None

    def misnamed(self, value: Any, name: str) -> str | None:
        """The name that an object registered as `name` states instead; None where it is the same or states none."""
        stated = attrgetter(self.states)(value) if self.states else name
        return None if stated == name else str(stated)

    def misfit(self, value: Any) -> str | None:
        """Why `value` does not fit this group, as the end of 'it is ...'; None when it fits."""
        if self.owners is not None:
            cells = getattr(value, "cells", None)
            return None if isinstance(cells, Mapping) else "not a table: it has no mapping `cells`"
        if self.base is None:
            return None
        attribute = self.base.partition(":")[2]
        base = _class_at(self.base)
        if self.is_class:
            fits = isinstance(value, type) and issubclass(value, base)
            return None if fits else f"{shown(value)}, not a subclass of {attribute}"
        return self._misread(value) if isinstance(value, base) else f"{shown(value)}, not an instance of {attribute}"

    def _misread(self, value: Any) -> str | None:
        """The end of 'it is ...' where an attribute that commands read is missing or of another kind."""
        if self.holds is not None:
            attribute, place = self.holds
            if not isinstance(getattr(value, attribute, None), _class_at(place)):
                return f"{shown(value)} whose `{attribute}` is not a {place.partition(':')[2]}"
        if self.lists:
            listed = getattr(value, self.lists, None)
            if not isinstance(listed, tuple | list) or not all(isinstance(one, str) for one in cast("Any", listed)):
                return f"{shown(value)} whose `{self.lists}` is not a tuple of strings"
        return None


def _class_at(place: str) -> type[Any]:
    module, _, attribute = place.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), attribute)
    return found


def shown(value: Any) -> str:
    """The description of an object of the wrong kind in a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an instance of {type(value).__name__}"


GROUPS: Mapping[str, Group] = {
    group.name: group
    for group in (
        Group("tpuc.dialects", "dialect", "tpuc.ir.dialect:Dialect", states="name"),
        Group("tpuc.frontends", "front end", "tpuc.api.frontend:Frontend", lists="suffixes"),
        Group("tpuc.importers", "importer", owners="tpuc.frontends"),
        Group(
            "tpuc.chips",
            "chip",
            "tpuc.api.chip:Chip",
            states="description.name",
            holds=("description", "tpuc.api.chip:ChipDescription"),
        ),
        Group("tpuc.lowerings", "lowering", owners="tpuc.chips"),
        Group("tpuc.legalizations", "legalization", owners="tpuc.chips"),
        Group("tpuc.kernels", "kernel", owners="tpuc.chips"),
        Group("tpuc.cpu_functions", "CPU function", "tpuc.api.cpu:CpuFunction"),
        Group("tpuc.passes", "pass", "tpuc.schedule.passes:Pass", is_class=True, states="name"),
        Group("tpuc.calibrators", "calibration method"),
        Group("tpuc.planners", "memory planner"),
        Group("tpuc.engines", "engine", "tpuc.api.frontend:HostEngine", lists="suffixes"),
        Group("tpuc.hooks", "hook plugin"),
        Group("tpuc.groups", "plugin group"),
    )
}
"""The compiler's own groups; packages, including the driver, add others in the group `tpuc.groups`."""

_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def added_group(name: str, base: str) -> Group:
    """A group defined by a package: `base` is the superclass of its objects, as `module:Class`.

    The word for its names is the name of that class.
    """
    return Group(name, _WORD_BEGINS.sub(" ", base.rpartition(":")[2]).lower(), base, is_class=True)
