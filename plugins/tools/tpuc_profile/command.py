"""`tpuc profile`: show the execution time of a compiled file, and the use of engines and memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tpuc.api import CorruptFile, InvalidModel, TpucError, UsageError, write_atomic
from tpuc_driver.api.command import (
    FILE,
    OUTPUT,
    POSITIVE,
    App,
    Command,
    check_inputs,
    check_writable,
    open_compiled,
    open_session,
    pass_app,
)

if TYPE_CHECKING:
    from tpuc.api import Chip, LayerCommands, LoadedModel

    from tpuc_profile.analysis import PlannedPlace
    from tpuc_profile.hints import Hint
    from tpuc_profile.report import WhatIf


LARGEST = 1 << 48
"""Maximum of addresses, sizes, and command numbers in a plan; no chip has more memory."""


@click.command(
    "profile",
    cls=Command,
    section="Run and measure",
    examples=(
        "tpuc profile FILE --plan plan.json --html profile.html",
        "tpuc profile FILE --what-if ddr=2",
    ),
)
@click.argument("file", type=FILE)
@click.option("--profile", "profile_name", metavar="NAME", help="Timing profile of the chip; the first one by default.")
@click.option(
    "--what-if", metavar="ddr=X,clock=Y", default="", help="Also time the network with DDR or clock X times as fast."
)
@click.option(
    "--plan", type=FILE, metavar="FILE.json", help="Memory plan from `compile --memory-plan`; adds names and reasons."
)
@click.option("--top", type=POSITIVE, metavar="N", help="List only the N slowest layers, slowest first.")
@click.option(
    "--hints",
    "work_dir",
    type=FILE,
    metavar="DIR",
    help="Compile the network of this --work-dir again with other options, and show what they would save.",
)
@click.option("--trace", type=OUTPUT, metavar="FILE.json", help="Write a timeline that Perfetto opens.")
@click.option("--html", "page", type=OUTPUT, metavar="FILE.html", help="Write a page with maps of both memories.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(
    app: App,
    file: Path,
    profile_name: str | None,
    what_if: str,
    plan: Path | None,
    top: int | None,
    work_dir: Path | None,
    trace: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Show cycles, DDR traffic, and memory of a compiled file."""
    check_inputs(file, plan, work_dir)
    for path in (trace, page):
        if path is not None:
            check_writable(path)
    from tpuc_profile.making import make_report, profile_named

    factors = read_what_if(what_if)
    chip, loaded = open_compiled(app, file)
    name = profile_named(chip, profile_name)
    places, layers = ([], None) if plan is None else _read_plan(plan)
    try:
        report = make_report(file, chip, loaded, name, places, layers or None, app.registry)
    except ValueError as error:
        raise _other_layers(file, plan if layers else None, error) from error
    if factors:
        report = replace(report, what_if=_time_again(chip, loaded, name, factors))
    hints: Sequence[Hint] = ()
    if work_dir is not None:
        from tpuc_profile.hints import measured_hints

        session = open_session(app, chip=chip.description.name)
        hints = measured_hints(session, file, work_dir, loaded.timeline(chip.profiles[0]).cycles)
    if trace is not None:
        from tpuc_profile.trace import trace_text

        write_atomic(trace, trace_text(report))
    if page is not None:
        from tpuc_profile.page import page_text

        write_atomic(page, page_text(report))
    if as_json:
        shown = {} if work_dir is None else {"hints": [vars(hint) for hint in hints]}
        app.result_json({**report.to_json(), **shown})
    else:
        app.result(report.text())
        for hint in hints:
            app.result(f"hint: {hint.text()}")
        if work_dir is not None and not hints:
            app.result("hint: none; no option saves 1% of the cycles")
        app.result("")
        app.table(report.layer_rows(top or 0))


def read_what_if(text: str) -> dict[str, float]:
    """Parse the factors in `ddr=2,clock=0.5`; raises UsageError."""
    factors: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if key not in ("ddr", "clock") or not equals:
            raise UsageError(f"--what-if: unknown factor '{part}'; write ddr=X or clock=X.")
        if key in factors:
            raise UsageError(f"--what-if gives {key} twice; keep one.")
        try:
            factor = float(value.removesuffix("x"))
        except ValueError:
            factor = 0.0
        if not 0.001 <= factor <= 1000:
            raise UsageError(f"--what-if: {key} is a factor from 0.001 to 1000, not '{value}'.")
        factors[key] = factor
    return factors


def _other_layers(file: Path, plan: Path | None, why: ValueError) -> TpucError:
    """Return the error for layers whose commands differ from the file's."""
    if plan is None:
        return CorruptFile(f"{file}: its metadata is damaged: {why}; compile the network again")
    return UsageError(f"{plan} is not the plan of {file}: {why}; give the plan of this file.")


def _time_again(chip: Chip, loaded: LoadedModel, profile: str, factors: dict[str, float]) -> WhatIf:
    from tpuc_profile.report import WhatIf

    ddr, clock = factors.get("ddr", 1.0), factors.get("clock", 1.0)
    cycles = loaded.timeline_if(profile, ddr / clock).cycles  # DDR does not follow the clock of the engines
    return WhatIf(ddr, clock, cycles, cycles / (chip.description.clock_hz * clock) * 1000)


def _whole(value: Any, least: int = 0) -> int:
    """Parse an address, a size, or a command number; raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise ValueError(f"{value!r} is not a whole number from {least} to {LARGEST}")
    return value


def _text(value: Any) -> str:
    """Parse a name or a reason; raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _read_plan(path: Path) -> tuple[list[PlannedPlace], list[LayerCommands]]:
    from tpuc.api import LayerCommands

    from tpuc_profile.analysis import PlannedPlace

    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        bases = {_text(pool["name"]): _whole(pool["address"]) for pool in content["pools"]}
        places = [
            PlannedPlace(
                bases[_text(row["pool"])] + _whole(row["offset"]),
                _whole(row["first"], -1),  # what is there before the first command
                _whole(row["size_bytes"]),
                _text(row["name"]),
                _text(row["reason"]),
            )
            for row in content["buffers"]
        ]
        layers = [
            LayerCommands(
                _text(row["name"]),
                _text(row["op"]),
                {
                    engine: tuple((_whole(first), _whole(last)) for first, last in ranges)
                    for engine, ranges in row["commands"].items()
                    if engine in ("compute", "dma")
                },
            )
            for row in content.get("layers", [])
        ]
        return places, layers
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        found = f"{error} is missing" if isinstance(error, KeyError) else "its JSON has another structure"
        raise InvalidModel(
            f"{path} is not a memory plan: {found}; make one with `tpuc deploy --memory-plan`"
        ) from error
