"""Call commands of plugins from Python: their JSON output becomes values, their remarks warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App


@dataclass
class Called(App):
    """One run of a command. `values` are its results as JSON values, `lines` its text."""

    tell: Callable[[str], None] = print
    values: list[Any] = field(default_factory=list[Any])
    lines: list[str] = field(default_factory=list[str])

    def result(self, text: str) -> None:
        """Store a result."""
        self.lines.append(text)

    def stream(self, text: str) -> None:
        """Store a piece of a result."""
        self.lines.append(text)

    def result_json(self, value: Any) -> None:
        """Store the values of a result."""
        self.values.append(value)

    def remark(self, text: str) -> None:
        """Issue a warning."""
        self.tell(text)


def call(name: str, arguments: Sequence[object], tell: Callable[[str], None]) -> Called:
    """Run a subcommand with these arguments; raises its TpucError."""
    app = Called(tell=tell)
    command: click.Command = app.registry.get("tpuc.commands", name)
    try:
        with command.make_context(name, [str(word) for word in arguments], obj=app) as context:
            command.invoke(context)
    except click.ClickException as error:
        raise UsageError(f"{name}: {error.format_message()}") from error
    return app
