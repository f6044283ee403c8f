"""Call commands of plugins from Python: their JSON becomes values, their remarks warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App


@dataclass
class Called(App):
    """A run of one command. `values` are its results for programs, `lines` those for people."""

    tell: Callable[[str], None] = print
    values: list[Any] = field(default_factory=list[Any])
    lines: list[str] = field(default_factory=list[str])

    def result(self, text: str) -> None:
        """Keep a result."""
        self.lines.append(text)

    def result_json(self, value: Any) -> None:
        """Keep the values of a result."""
        self.values.append(value)

    def remark(self, text: str) -> None:
        """Warn."""
        self.tell(text)


def call(name: str, arguments: Sequence[object], tell: Callable[[str], None]) -> Called:
    """Run a subcommand of the command line with these words; raises TpucError as it does."""
    app = Called(tell=tell)
    command: click.Command = app.registry.get("tpuc.commands", name)
    try:
        with command.make_context(name, [str(word) for word in arguments], obj=app) as context:
            command.invoke(context)
    except click.ClickException as error:
        raise UsageError(f"{name}: {error.format_message()}") from error
    return app
