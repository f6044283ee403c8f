"""`tpuc regress`: run the commands of each network in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tpuc_driver.api.command import FILE, App, Command, check_inputs, pass_app

if TYPE_CHECKING:
    from tpuc_regress.running import Outcome

FAILED = 1


@click.command(
    "regress",
    cls=Command,
    section="Run and measure",
    examples=("tpuc regress networks/",),
)
@click.argument("folder", metavar="DIR", type=FILE)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--work-dir", type=FILE, metavar="DIR", help="Keep the files that commands write, one folder per network."
)
@click.option("--json", "as_json", is_flag=True, help="Write every command and its outcome as JSON.")
@pass_app
def command(app: App, folder: Path, names: tuple[str, ...], work_dir: Path | None, as_json: bool) -> int:
    """Run the listed commands for every network of a folder.

    DIR/NAME.toml describes a network: the files it needs, and tpuc commands in order. Each command runs in a separate
    process, in a folder of the network; the exit code is 0 if all of them succeed. Without NAMES, all networks of the
    folder are run.
    """
    check_inputs(folder)
    from tpuc_regress.description import find
    from tpuc_regress.running import run

    descriptions = find(folder, names)
    options = [word for name in app.enabled for word in ("--with", name)]
    options += [word for name in app.prefer for word in ("--prefer", name)]
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        place = work_dir.resolve() if work_dir is not None else Path(temporary)
        for description in app.progress(descriptions, "networks", len(descriptions)):
            for outcome in run(description, place / description.name, options):
                found.append(outcome)
                if not as_json:
                    app.result(_line(outcome))
    failed = {outcome.network for outcome in found if not outcome.passed}
    if as_json:
        app.result_json(_plain(found))
    else:
        app.result(f"{len(descriptions)} networks, {len(failed)} failed")
    return FAILED if failed else 0


def _line(outcome: Outcome) -> str:
    if outcome.passed:
        return f"{outcome.network}: ok: {outcome.command}"
    return f"{outcome.network}: FAILED ({outcome.code}): {outcome.command}\n    {outcome.said}"


def _plain(outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    return [
        {"network": one.network, "command": one.command, "exit_code": one.code, "said": one.said} for one in outcomes
    ]
