"""Base classes of commands: global options, and option names that ignore case and dashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from tpuc_driver.cli.app import App
from tpuc_driver.cli.foreign import translated
from tpuc_driver.cli.outputs import check_outputs
from tpuc_driver.cli.sections import write_options
from tpuc_driver.cli.text import option_name

CONTEXT_SETTINGS: dict[str, Any] = {
    "token_normalize_func": option_name,
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


def global_options() -> list[click.Parameter]:
    """`--with`, `--prefer` and `-v`, accepted before and after a command's name."""
    return [
        _global_option(
            ["--with", "enabled_plugins"],
            _enable,
            multiple=True,
            metavar="NAME",
            help="Enable an optional plugin.",
        ),
        _global_option(
            ["--prefer", "preferred_packages"],
            _prefer,
            multiple=True,
            metavar="PACKAGE",
            help="Use this package if several offer the same name.",
        ),
        _global_option(
            ["-v", "--verbose", "verbose"],
            _be_verbose,
            is_flag=True,
            help="Explain each step, and show tracebacks of errors.",
        ),
    ]


def _global_option(
    names: list[str], callback: Callable[[click.Context, click.Parameter, Any], None], **settings: Any
) -> click.Option:
    return click.Option(names, callback=callback, expose_value=False, is_eager=True, **settings)


def _enable(context: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    context.ensure_object(App).enabled += value


def _prefer(context: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    context.ensure_object(App).prefer += value


def _be_verbose(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.ensure_object(App).verbose |= value


def joined_lists(arguments: Sequence[str]) -> list[str]:
    """The arguments, with each one that ends in a comma joined to the next one, unless that is an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1].endswith(",") and not argument.startswith("--"):
            joined[-1] += argument
        else:
            joined.append(argument)
    return joined


def write_examples(examples: Sequence[str], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a help section with one example per line, for copying."""
    if not examples:
        return
    chips = ctx.ensure_object(App).make_registry().names("tpuc.chips")
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"  {shown_example(example, chips)}\n")


def shown_example(example: str, chips: Sequence[str]) -> str:
    """An example with the first of the installed chips, or a placeholder."""
    return example.replace("{chip}", chips[0] if chips else "NAME")


class Command(click.Command):
    """A subcommand of `tpuc`: use as `@click.command(cls=Command)` and register it in `tpuc.commands`.

    Its function may return an exit code; None is 0. `examples` are command lines for its help, in which `{chip}` stands
    for an installed chip.
    """

    api_version = 1

    def __init__(self, *arguments: Any, section: str = "", examples: Sequence[str] = (), **settings: Any) -> None:
        settings["context_settings"] = {**CONTEXT_SETTINGS, **(settings.get("context_settings") or {})}
        super().__init__(*arguments, **settings)
        self.params += global_options()
        self.section, self.examples = section, tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options under their section headings, where they have some."""
        if not write_options(self, ctx, formatter):
            super().format_options(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and click's epilog."""
        write_examples(self.examples, ctx, formatter)
        super().format_epilog(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Lists may have blanks after their commas: `--mean 103.9, 116.8, 123.7`; options of TPU-MLIR are
        translated.
        """
        known = {option_name(name.removeprefix("--")) for one in self.get_params(ctx) for name in one.opts}
        return super().parse_args(ctx, translated(self.name or "", known, joined_lists(args)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless an output would overwrite an input."""
        check_outputs(self, ctx.params)
        return super().invoke(ctx)


class CommandGroup(click.Group):
    """A subcommand with subcommands (`tpuc npz compare`)."""

    api_version = 1
    command_class = Command

    def __init__(self, *arguments: Any, section: str = "", examples: Sequence[str] = (), **settings: Any) -> None:
        settings["context_settings"] = {**CONTEXT_SETTINGS, **(settings.get("context_settings") or {})}
        settings["no_args_is_help"] = False
        super().__init__(*arguments, **settings)
        self.params += global_options()
        self.section, self.examples = section, tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and click's epilog."""
        write_examples(self.examples, ctx, formatter)
        super().format_epilog(ctx, formatter)
