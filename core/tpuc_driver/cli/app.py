"""State shared by all commands: the registry with the user's choices, remarks, progress and JSON output."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import click
from tpuc.errors import harmless_json, visible

from tpuc_driver.cli.text import sentence
from tpuc_driver.progress import Display

if TYPE_CHECKING:
    from tpuc.registry import Registry
    from tpuc.schedule import Pipelines

    from tpuc_driver.cli.settings import Settings
    from tpuc_driver.cli.tables import Mark


@dataclass
class App:
    """One run of the command line. `enabled` and `prefer` collect `--with` and `--prefer`; `arguments` are the words of
    the command line; `progress` shows loops and stages on a terminal.
    """

    verbose: bool = False
    enabled: list[str] = field(default_factory=list[str])
    prefer: list[str] = field(default_factory=list[str])
    settings: Settings | None = None
    arguments: Sequence[str] = ()
    progress: Display = field(default_factory=Display)

    def make_registry(self) -> Registry:
        """The installed plugins under the current choices; those of the command line precede tpuc.toml's."""
        from tpuc.registry import Registry

        enabled, prefer = [*self.enabled], [*self.prefer]
        if self.settings is not None:
            enabled += self.settings.enabled
            prefer += self.settings.prefer
        return Registry(prefer=tuple(dict.fromkeys(prefer)), enabled=tuple(dict.fromkeys(enabled)))

    @functools.cached_property
    def registry(self) -> Registry:
        """The registry for a command; raises UsageError for choices that name nothing."""
        registry = self.make_registry()
        registry.check_choices()
        return registry

    @functools.cached_property
    def pipelines(self) -> Pipelines:
        """The named pipelines, including replacements in tpuc.toml."""
        from tpuc.errors import UsageError
        from tpuc.schedule import PIPELINES

        changes: Pipelines = self.settings.pipelines if self.settings is not None else {}
        for stage in changes:
            if stage not in PIPELINES:
                raise UsageError(f"tpuc.toml: no pipeline named '{stage}'. Pipelines: {', '.join(PIPELINES)}.")
        return {**PIPELINES, **changes}

    def result(self, text: str) -> None:
        """Print a result to stdout."""
        click.echo(text)

    def stream(self, text: str) -> None:
        """Print a piece of a result to stdout at once, without ending the line."""
        click.echo(text, nl=False)

    def table(self, rows: Sequence[Sequence[str]], mark: Mark | None = None, *, has_head: bool = True) -> None:
        """Print a table to stdout, formatted for a terminal or a pipe; the first row is the header."""
        from tpuc_driver.cli.tables import write_table

        write_table(sys.stdout, rows, mark, has_head=has_head)

    def result_json(self, value: Any) -> None:
        """Print a result as JSON to stdout; infinities and NaN become null, since JSON has neither."""
        click.echo(harmless_json(json.dumps(_expressible(value), indent=2, ensure_ascii=False)))

    def remark(self, text: str) -> None:
        """Print a remark on one line of stderr."""
        with self.progress.paused():
            click.echo(sentence(text), err=True)

    def log(self, text: str) -> None:
        """Print a remark with -v."""
        if self.verbose:
            with self.progress.paused():
                click.echo(visible(text), err=True)


def _expressible(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _expressible(one) for key, one in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_expressible(one) for one in cast("list[Any]", value)]
        case _:
            return value


pass_app = click.make_pass_decorator(App, ensure=True)
