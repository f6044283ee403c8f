"""`tpuc combine`: merge compiled files into one."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.session import check_inputs, check_outputs, open_session
from tpuc_driver.cli.values import FILE, OUTPUT

FEWEST = 2


@click.command("combine", cls=Command, section="Compile", examples=("tpuc combine a.bmodel b.bmodel -o both.bmodel",))
@click.argument("files", metavar="FILE FILE...", nargs=-1, type=FILE)
@click.option("-o", "--output", type=OUTPUT, required=True, metavar="FILE", help="The file to write.")
@pass_app
def command(app: App, files: tuple[Path, ...], output: Path) -> None:
    """Merge the networks of several compiled files into one.

    Networks with the same name become one network for several shapes. The files must be for one chip and come from
    tpuc.
    """
    if len(files) < FEWEST:
        raise UsageError("nothing to combine; give at least two compiled files.")
    check_inputs(*files)
    check_outputs(output)
    session = open_session(app)
    from tpuc_driver.session.combining import combine

    combine([session.opened(path) for path in files], output)
    app.result("\n".join(map(str, session.opened(output).entries)))
