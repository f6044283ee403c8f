"""`tpuc disasm`: show the commands of a compiled file as text."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc.files import check_writable, write_atomic

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.session import check_inputs, open_session
from tpuc_driver.cli.values import FILE, OUTPUT


@click.command(
    "disasm",
    cls=Command,
    section="Look inside",
    examples=("tpuc disasm FILE",),
)
@click.argument("file", type=FILE)
@click.option("-o", "output", type=OUTPUT, metavar="FILE", help="Write here instead of stdout.")
@pass_app
def command(app: App, file: Path, output: Path | None) -> None:
    """Print the commands of a compiled file."""
    check_inputs(file)
    if output is not None:
        check_writable(output)
    text = open_session(app).disassemble(file).rstrip("\n")
    if output is None:
        app.result(text)
    else:
        write_atomic(output, text + "\n")
