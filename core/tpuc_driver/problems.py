"""Load all installed plugins and report what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tpuc.errors import PluginConflict, PluginError
from tpuc.registry.offers import Offer
from tpuc.registry.registry import Registry, load_checked
from tpuc.registry.tables import TableName

COMMANDS = "tpuc.commands"
NEAR = 0.8
"""How much a group's name must resemble one of ours to be taken for a misspelling of it."""


@dataclass(frozen=True)
class Problem:
    """A sentence about one entry point, with its cure."""

    offer: Offer
    sentence: str


def find_problems(registry: Registry, built_in: Collection[str]) -> list[Problem]:
    """Everything that is wrong, in the order of the entry points. `built_in`: the commands of tpuc itself."""
    found = [problem for offer in registry.offers for problem in _of_offer(registry, offer, built_in)]
    broken = {problem.offer for problem in found}
    return [*found, *_of_cells(registry, broken)]


def shadowed(name: str, providers: str) -> PluginConflict:
    """The error about a command that packages offer although tpuc itself has it."""
    return PluginConflict(
        f"command '{name}' of {providers} has the same name as a built-in command. Its author has to rename it; until "
        "then, uninstall it, or choose one with --prefer PACKAGE."
    )


def _of_offer(registry: Registry, offer: Offer, built_in: Collection[str]) -> Iterator[Problem]:
    if offer.group not in registry.groups:
        from difflib import get_close_matches  # late: it is slow

        close = get_close_matches(offer.group, registry.groups, n=1, cutoff=NEAR)
        if close:  # others are groups of a tool that is not installed
            yield Problem(
                offer,
                f"'{offer.name}' of {offer.provider} is in the group '{offer.group}', which no installed package "
                f"reads. Its author has to write '{close[0]}' in its pyproject.toml.",
            )
        return
    if offer.group == COMMANDS and offer.name in built_in:
        yield Problem(offer, str(shadowed(offer.name, offer.provider)))
    try:
        value = load_checked(offer, registry.group(offer.group))
    except PluginError as error:
        yield Problem(offer, str(error))
        return
    if offer.group == "tpuc.dialects" and registry.has("tpuc.dialects", offer.name):
        for name in value.ops or value.names():
            try:
                registry.resolve_op(f"{offer.name}.{name}")
            except PluginError as error:
                yield Problem(offer, str(error))


def _of_cells(registry: Registry, broken: Collection[Offer]) -> Iterator[Problem]:
    """Cells that several tables fill."""
    tables = {
        (group, name.owner, name.dialect)
        for group in registry.groups
        if registry.group(group).owners is not None
        for entry in registry.names(group)
        if (name := TableName.parse(entry)) is not None
    }
    for group, owner, dialect in sorted(tables):
        if any(offer in broken for offer in registry.offers if offer.group == group):
            continue
        merged = registry.merged(group, owner, dialect)
        for key in merged.filled():
            try:
                merged.cell(key, registry.prefer)
            except PluginError as error:
                yield Problem(merged.claims(key)[-1].offer, str(error))
