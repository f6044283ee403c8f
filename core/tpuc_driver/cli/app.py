"""What every command shares: the registry with the user's choices, remarks, progress and JSON output."""

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
    """One run of the command line. `enabled` and `prefer` gather `--with` and `--prefer` from wherever they stand;
    `arguments` are the words that the user typed; `progress` shows how far loops and stages are, on a terminal.
    """

    verbose: bool = False
    enabled: list[str] = field(default_factory=list[str])
    prefer: list[str] = field(default_factory=list[str])
    settings: Settings | None = None
    arguments: Sequence[str] = ()
    progress: Display = field(default_factory=Display)

    def make_registry(self) -> Registry:
        """The installed plugins under the choices made so far; those of the command line come before tpuc.toml's."""
        from tpuc.registry import Registry

        enabled, prefer = [*self.enabled], [*self.prefer]
        if self.settings is not None:
            enabled += self.settings.enabled
            prefer += self.settings.prefer
        return Registry(prefer=tuple(dict.fromkeys(prefer)), enabled=tuple(dict.fromkeys(enabled)))

    @functools.cached_property
    def registry(self) -> Registry:
        """The plugins for a command to use; raises UsageError for choices that name nothing."""
        registry = self.make_registry()
        registry.check_choices()
        return registry

    @functools.cached_property
    def pipelines(self) -> Pipelines:
        """The named pipelines, with those that tpuc.toml replaces."""
        from tpuc.errors import UsageError
        from tpuc.schedule import PIPELINES

        changes: Pipelines = self.settings.pipelines if self.settings is not None else {}
        for stage in changes:
            if stage not in PIPELINES:
                raise UsageError(f"tpuc.toml: no pipeline named '{stage}'. Pipelines: {', '.join(PIPELINES)}.")
        return {**PIPELINES, **changes}

    def result(self, text: str) -> None:
        """A result, on stdout."""
        click.echo(text)

    def table(self, rows: Sequence[Sequence[str]], mark: Mark | None = None, *, has_head: bool = True) -> None:
        """A table on stdout, the first row of which is its head: for a terminal, a pipe, or whoever reads it."""
        from tpuc_driver.cli.tables import write_table

        write_table(sys.stdout, rows, mark, has_head=has_head)

    def result_json(self, value: Any) -> None:
        """A result for programs, on stdout; what is infinite or no number is null, JSON has no word for it."""
        click.echo(harmless_json(json.dumps(_expressible(value), indent=2, ensure_ascii=False)))

    def remark(self, text: str) -> None:
        """Something worth knowing, on one line of stderr."""
        with self.progress.paused():
            click.echo(sentence(text), err=True)

    def log(self, text: str) -> None:
        """A remark for those who asked with -v."""
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
