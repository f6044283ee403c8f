"""`tpuc new`: create an installable package with one plugin and its test."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

import click
from tpuc.api import UsageError
from tpuc_driver.api.command import OUTPUT, App, Command, check_writable, pass_app

from tpuc_new.writing import Kind, files_of, kinds, write

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.command(
    "new",
    cls=Command,
    section="Installation",
    examples=("tpuc new pass drop-relu", "tpuc new op soft-step", "tpuc new chip my-npu -o plugins/my-npu"),
)
@click.argument("kind", metavar="KIND", type=click.Choice(sorted(kinds())))
@click.argument("name", metavar="NAME")
@click.option("-o", "--output", metavar="DIR", type=OUTPUT, help="Folder to create.  [default: NAME]")
@pass_app
def command(app: App, kind: str, name: str, output: Path | None) -> None:
    """Create a plugin package with a test.

    KIND is board, calibrator, chip, command, frontend, hook, kernel, lowering, metric, op, pass, planner, postprocess,
    or preset.

    The package is a working example under your name. Install it with `pip install -e DIR`.
    """
    chosen = kinds()[kind]
    spelt = name.replace("_", "-")
    folder = output or Path(spelt)
    _check_name(app, chosen, name, spelt)
    if folder.exists():
        raise UsageError(f"{folder} exists; give another folder with -o")
    check_writable(folder)
    write(files_of(chosen, spelt), folder)
    app.result(f"{folder} written; install it: pip install -e {folder}; test it: pytest {folder}")


def _check_name(app: App, kind: Kind, name: str, spelt: str) -> None:
    """Raise UsageError for a name that the package, its module, or its plugin cannot have."""
    module = spelt.replace("-", "_")
    if not NAME.fullmatch(spelt) or keyword.iskeyword(module):
        raise UsageError(f"'{name}' cannot name a package; use small letters, digits and dashes, as in drop-relu")
    plugin = kind.plugin(spelt)
    if app.registry.has(kind.group, plugin):
        what = app.registry.group(kind.group).kind.replace("front end", "frontend")
        raise UsageError(
            f"{app.registry.offer(kind.group, plugin).provider} has a {what} '{plugin}'; choose another name"
        )
    if kind.group == "tpuc.commands" and spelt in _commands():
        raise UsageError(f"tpuc has a command '{spelt}'; choose another name")
    if module == "tests" or find_spec(module) is not None:
        raise UsageError(f"there is a Python module '{module}', so no package can have its name; choose another name")


def _commands() -> list[str]:
    """Return the names of tpuc's own commands."""
    context = click.get_current_context()
    shell = context.find_root().command
    return shell.list_commands(context) if isinstance(shell, click.Group) else []
