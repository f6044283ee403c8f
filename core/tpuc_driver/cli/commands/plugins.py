"""`tpuc plugins`: list installed plugins; they are imported only with --check."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.summaries import BUILT_IN

if TYPE_CHECKING:
    from tpuc.registry import Registry, Row

    from tpuc_driver.problems import Problem


BAD_STATES = ("broken", "conflict")
"""States of unusable plugins."""


@click.command(
    "plugins",
    cls=Command,
    section="Installation",
    examples=("tpuc plugins --check",),
)
@click.option("--check", is_flag=True, help="Load every plugin and say what is broken.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, check: bool, as_json: bool) -> int:
    """List installed plugins."""
    from tpuc_driver.problems import find_problems

    rows = [row for group in app.registry.groups for row in app.registry.describe(group)]
    found = find_problems(app.registry, BUILT_IN) if check else []
    rows = with_broken(rows, found)
    problems = [problem.sentence for problem in found]
    unreadable = list(app.registry.unreadable) if check else []
    if as_json:
        listed = [dataclasses.asdict(row) for row in rows]
        app.result_json({"plugins": listed, "problems": [*unreadable, *problems]} if check else {"plugins": listed})
    else:
        if rows:
            app.table(listed_rows(app.registry, rows), lambda row: "red" if row[-1] in BAD_STATES else "")
        else:
            app.result("no plugins are installed")
        for problem in problems:
            app.remark(problem)
    return 1 if problems or unreadable else 0


def with_broken(rows: Sequence[Row], problems: Sequence[Problem]) -> list[Row]:
    """The rows, with the state `broken` for those with a problem, then the entry points in unknown groups."""
    from tpuc.registry import Row

    broken = {(offer.group, offer.name, offer.package): offer for offer in (problem.offer for problem in problems)}
    keys = [(row.group, row.name, row.package) for row in rows]
    marked = [replace(row, state="broken") if key in broken else row for key, row in zip(keys, rows, strict=True)]
    others = [offer for key, offer in broken.items() if key not in keys]
    return [*marked, *(Row(o.group, o.name, o.package, o.version, o.path, "broken") for o in others)]


def listed_rows(registry: Registry, rows: list[Row]) -> list[tuple[str, ...]]:
    """One row per plugin, under the word for its group."""
    head = ("kind", "name", "package", "object", "state")
    return [head, *(tuple(_cells(_kind(registry, row.group), row)) for row in rows)]


def _kind(registry: Registry, group: str) -> str:
    """The word for a group; the group's name where it is unknown."""
    return registry.group(group).kind if group in registry.groups else group


def _cells(kind: str, row: Row) -> tuple[str, ...]:
    return (kind, row.name, f"{row.package} {row.version}", row.path, row.state)
