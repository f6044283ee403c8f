"""`tpuc extract`: split a compiled file into its networks."""

from __future__ import annotations

from pathlib import Path

import click

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.session import check_inputs, open_session
from tpuc_driver.cli.values import FILE


@click.command("extract", cls=Command, section="Compile", examples=("tpuc extract both.bmodel -o apart/",))
@click.argument("file", metavar="FILE", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, metavar="DIR", help="The folder to write to.")
@pass_app
def command(app: App, file: Path, output: Path) -> None:
    """Split a compiled file into one file per network and set of shapes.

    The files are named after the networks, and are identical to those given to `tpuc combine`.
    """
    check_inputs(file)
    from tpuc_driver.session.combining import extract

    app.result("\n".join(map(str, extract(open_session(app).opened(file), output))))
