"""`tpuc report`: accuracy, time, memory, and decisions of a compiled file on one page."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc.api import write_atomic
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


@click.command(
    "report",
    cls=Command,
    section="Run and measure",
    examples=("tpuc report FILE --work-dir work/ --dataset images/ -o report.html",),
)
@click.argument("file", type=FILE)
@click.option("--work-dir", type=FILE, metavar="DIR", help="Folder that `compile --work-dir` wrote.")
@click.option(
    "--dataset", type=FILE, metavar="DIR", help="Folder of samples (images, npz, or npy) to measure accuracy on."
)
@click.option("--input-num", type=POSITIVE, default=100, show_default=True, help="Maximum number of samples.")
@click.option("--profile", "profile_name", metavar="NAME", help="Timing profile of the chip; the first one by default.")
@click.option("-o", "--output", type=OUTPUT, required=True, metavar="FILE.html", help="The page to write.")
@pass_app
def command(
    app: App,
    file: Path,
    work_dir: Path | None,
    dataset: Path | None,
    input_num: int,
    profile_name: str | None,
    output: Path,
) -> None:
    """Write a page about a compiled file to share.

    Cycles and memory are read from the file. Decisions, the error of every layer, and the command that produced the
    file require the folder of intermediate files; accuracy also requires samples, without those that the network was
    calibrated on.
    """
    check_inputs(file, work_dir, dataset)
    check_writable(output)
    from tpuc_report.accuracy import measure
    from tpuc_report.page import page_text
    from tpuc_report.sources import Subject, read_origin, timed

    chip, loaded = open_compiled(app, file)
    origin = read_origin(app.registry, file, work_dir, chip.description.name)
    accuracy = None
    if dataset is not None:
        session = open_session(app, chip=chip.description.name)
        seen = session.opened(file).description(0).calibrated_on
        accuracy = measure(session, origin.modules(dataset), dataset, input_num, seen)
    subject = Subject(file.name, chip, loaded, timed(file, chip, loaded, profile_name), origin, accuracy)
    write_atomic(output, page_text(subject))
    app.remark(f"{output}: open it in a browser; it is self-contained")
