"""The `tpuc` command: loads subcommands late, with their options from tpuc.toml."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
from tpuc.errors import PluginError, UsageError
from tpuc.registry import Registry
from tpuc.registry.offers import OURS, normalize

from tpuc_driver.cli.aliases import command_name
from tpuc_driver.cli.app import App
from tpuc_driver.cli.command import CONTEXT_SETTINGS, global_options
from tpuc_driver.cli.summaries import BUILT_IN, SECTIONS, SUMMARIES
from tpuc_driver.cli.text import dashed
from tpuc_driver.cli.values import ListedType, ShapesType

COMMANDS = "tpuc.commands"


class Shell(click.Group):
    """Subcommands are built in or come from `tpuc.commands`; listing them imports none."""

    def __init__(self) -> None:
        super().__init__(
            name="tpuc",
            help="Compile neural networks for TPUs, and look into the result.",
            context_settings=CONTEXT_SETTINGS,
            params=[*global_options(), _version_option()],
            callback=_start,
            invoke_without_command=True,
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*BUILT_IN, *_registry(ctx).names(COMMANDS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command for a name or an alias.

        Raises PluginConflict if a package also offers a built-in command, unless `--prefer` decides.
        """
        try:
            return self._command(ctx, command_name(cmd_name))
        except PluginError:
            if ctx.resilient_parsing:
                return None  # a shell completes words; nobody asked for the command
            raise

    def _command(self, ctx: click.Context, name: str) -> click.Command | None:
        registry = _registry(ctx)
        if name not in BUILT_IN:
            return registry.get(COMMANDS, name) if registry.has(COMMANDS, name) else None
        rivals = [offer for offer in registry.offers if (offer.group, offer.name) == (COMMANDS, name)]
        known = {OURS, *(normalize(offer.package) for offer in rivals)}
        chosen = next((package for package in map(normalize, registry.prefer) if package in known), None)
        if rivals and chosen is None:
            from tpuc_driver.problems import shadowed

            raise shadowed(name, ", ".join(sorted(offer.provider for offer in rivals)))
        return import_module(BUILT_IN[name]).command if chosen in (None, OURS) else registry.get(COMMANDS, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command, with its options from tpuc.toml."""
        from tpuc_driver.cli.settings import check_options, read_settings

        name = command_name(args[0])
        names = self.list_commands(ctx)
        settings = read_settings(Path(), names)
        ctx.ensure_object(App).settings = settings
        command = self.get_command(ctx, name)
        if command is None:
            raise _no_command(args[0], names)
        given = settings.commands.get(name, {})
        if isinstance(command, click.Group):
            ctx.default_map = {name: given}
            return name, command, args[1:]
        options = {
            dashed(spelling).lstrip("-"): parameter
            for parameter in command.params
            for spelling in (*parameter.opts, *parameter.secondary_opts)
        }
        check_options(name, list(given), list(options))
        values = {options[option].name or "": _typed(name, option, options[option], given[option]) for option in given}
        ctx.default_map = {name: values}
        return name, command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and summaries by section; the package instead of the summary for third-party commands."""
        foreign = {
            row.name: f"(from {row.package} {row.version})"
            for row in _registry(ctx).describe(COMMANDS)
            if normalize(row.package) != OURS
        }
        others = [name for name in self.list_commands(ctx) if not any(name in names for names in SECTIONS.values())]
        for section, names in {**SECTIONS, "From other packages": others}.items():
            known = [name for name in names if name in self.list_commands(ctx)]
            rows = [
                (name, foreign[name] if name in foreign and name not in BUILT_IN else SUMMARIES.get(name, ""))
                for name in known
            ]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


def _typed(command: str, option: str, parameter: click.Parameter, value: Any) -> Any:
    from tpuc_driver.cli.settings import typed_value

    if isinstance(parameter.type, ShapesType) and isinstance(value, list):
        return str(cast("list[Any]", value))
    many = parameter.multiple or parameter.nargs != 1 or isinstance(parameter.type, ListedType)
    typed = typed_value(command, option, value, many=many)
    return [typed] if parameter.multiple and isinstance(typed, str) else typed


def _registry(ctx: click.Context) -> Registry:
    return ctx.ensure_object(App).make_registry()


@click.pass_context
def _start(ctx: click.Context) -> int | None:
    """Raise the error for a missing subcommand."""
    if ctx.invoked_subcommand is not None:
        return None
    click.echo(ctx.get_help(), err=True)
    return UsageError.exit_code


def _no_command(typed: str, names: list[str]) -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(command_name(typed), names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UsageError(f"no command named '{typed}'.{hint} Commands: {', '.join(names)}.")


def _version_option() -> click.Option:
    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_show_version,
        help="Show the version and exit.",
    )


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from tpuc.version import installed_version

    click.echo(f"tpuc {installed_version() or '(not installed)'}")
    context.exit()
