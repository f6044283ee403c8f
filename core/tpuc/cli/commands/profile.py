"""`tpuc profile`: how long a compiled file takes on its chip, and where the time goes."""

from __future__ import annotations

from pathlib import Path

import click

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command
from tpuc.cli.session import check_inputs, open_session
from tpuc.cli.values import FILE


@click.command("profile", cls=Command)
@click.argument("file", type=FILE)
@click.option("--profile", "profile_name", metavar="NAME", help="Timing model of the chip; its first one if not given.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@pass_app
def command(app: App, file: Path, profile_name: str | None, as_json: bool) -> None:
    """Show cycles, DDR traffic and engine use of a compiled file."""
    check_inputs(file)
    report = open_session(app).profile(file, profile=profile_name)
    if as_json:
        app.result_json(report.to_json())
    else:
        app.result(report.text())
