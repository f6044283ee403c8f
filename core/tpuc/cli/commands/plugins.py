"""`tpuc plugins`: what is installed, without importing any of it unless asked to check."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command
from tpuc.cli.text import columns

if TYPE_CHECKING:
    from tpuc.registry import Registry, Row


@click.command(
    "plugins",
    cls=Command,
    section="Installation",
    examples=("tpuc plugins --check",),
)
@click.option("--check", is_flag=True, help="Load every plugin and say what is broken.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@pass_app
def command(app: App, check: bool, as_json: bool) -> int:
    """List installed plugins."""
    from tpuc.diagnosis import broken_plugins

    rows = [row for group in app.registry.groups for row in app.registry.describe(group)]
    problems = broken_plugins(app.registry) if check else []
    if as_json:
        listed = [dataclasses.asdict(row) for row in rows]
        app.result_json({"plugins": listed, "problems": problems} if check else {"plugins": listed})
    else:
        app.result(show(app.registry, rows))
        for problem in problems:
            app.remark(problem)
    return 1 if problems else 0


def show(registry: Registry, rows: list[Row]) -> str:
    """One line per plugin, under the word for its group."""
    if not rows:
        return "no plugins are installed"
    head = ("kind", "name", "package", "object", "state")
    return columns([head, *(_cells(registry.group(row.group).kind, row) for row in rows)])


def _cells(kind: str, row: Row) -> tuple[str, ...]:
    return (kind, row.name, f"{row.package} {row.version}", row.path, row.state)
