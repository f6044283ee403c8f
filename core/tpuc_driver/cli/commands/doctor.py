"""`tpuc doctor`: report what is installed and what is missing."""

from __future__ import annotations

import click

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command


@click.command(
    "doctor",
    cls=Command,
    section="Installation",
    examples=("tpuc doctor",),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, as_json: bool) -> int:
    """Check the installation: versions, plugins, and optional packages.

    The exit code is 1 if an installed part does not work.
    """
    from tpuc_driver.diagnosis import doctor

    found = doctor(app.registry)
    if as_json:
        app.result_json(found.to_json())
    else:
        app.result(found.text())
    return 1 if found.problems else 0
