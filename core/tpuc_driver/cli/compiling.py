"""Code shared by `compile` and `deploy`: options from a module to a compiled file, the session, and output files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tpuc_driver.cli.app import App
from tpuc_driver.cli.options import (
    boundary_options,
    bundle_option,
    labels_option,
    layout_option,
    planning_options,
    runtime_option,
)
from tpuc_driver.cli.pools import PoolChoice, pool_options
from tpuc_driver.cli.sections import in_section
from tpuc_driver.cli.session import check_bundle, check_outputs, open_session, show_report, write_bundle
from tpuc_driver.cli.values import EMPTY, FILE, MODE, NAMES, NUMBERS, OUTPUT, PATHS, POSITIVE

if TYPE_CHECKING:
    from tpuc_driver.session import CompileReport, Session

R = TypeVar("R")
Function = Callable[..., R]


@dataclass(frozen=True)
class Choices:
    """The compilation options, and the files to write besides the compiled one."""

    quantize: str | None
    symmetric_divisor: int | None
    runtime_version: str | None
    planner: str | None
    opt: int | None
    cores: int | None
    cpu_ops: tuple[str, ...]
    input_layout: str | None
    pools: PoolChoice
    layout: str | None
    work_dir: Path | None
    memory_plan: Path | None
    report_path: Path | None
    bundle: Path | None

    def session(self, app: App, chip: str, quantize: str | None = None) -> Session:
        """The session for one chip, in the requested mode or another one."""
        return open_session(
            app,
            chip=chip,
            quantize=quantize or self.quantize,
            work_dir=self.work_dir,
            symmetric_divisor=self.symmetric_divisor,
            runtime_version=self.runtime_version,
            planner=self.planner,
            opt=self.opt,
            cores=self.cores,
            cpu_ops=self.cpu_ops,
            input_layout=self.input_layout,
            pools=self.pools,
            layout=self.layout,
        )

    def check_outputs(self, *files: Path | None) -> None:
        """Raise for the first file that cannot be written; `files` are the compiled ones."""
        check_outputs(*files, self.memory_plan, self.report_path)
        if self.bundle is not None:
            check_bundle(self.bundle)

    def show(self, app: App, report: CompileReport) -> None:
        """Print the report of a compilation, and write the requested report files."""
        show_report(app, report, self.report_path, self.memory_plan, self.work_dir)

    def write_bundle(self, app: App, session: Session, model: Path) -> None:
        """Write the deployment folder, if requested."""
        if self.bundle is not None:
            write_bundle(app, session, model, self.bundle)


SECTIONS: Mapping[str, tuple[Callable[[Any], Any], ...]] = {
    "Target and files": (
        click.option(
            "--quantize",
            type=MODE,
            help="f32, f16, bf16, int8, ..., of language models w8f16, w4bf16; by default, network and chip decide.",
        ),
        runtime_option,
        click.option("--report", "report_path", type=OUTPUT, metavar="FILE.json", help="Write the report as JSON."),
        bundle_option,
        click.option(
            "--layout",
            metavar="NAME",
            help="Lay out the folder of C for the tools of a framework: zephyr, arduino, esp-idf.",
        ),
        click.option("--work-dir", type=FILE, metavar="DIR", help="Folder that keeps every intermediate file."),
    ),
    "Network": (labels_option,),
    "Calibration (int8)": (
        click.option("--calibration-table", type=FILE, metavar="FILE", help="Value ranges, found by `tpuc calibrate`."),
        click.option(
            "--quantize-table", type=FILE, metavar="FILE", help="Modes of single ops, found by `tpuc qtable`."
        ),
        click.option(
            "--symmetric-divisor", type=POSITIVE, help="Divisor of signed symmetric scales; the chip's own by default."
        ),
    ),
    "Pictures": (layout_option,),
    "Inputs and outputs of the file": (boundary_options,),
    "Comparison of the stages": (
        click.option("--test-input", type=PATHS, default=EMPTY, help="Compare every stage on this npz, npy, or image."),
        click.option("--excepts", type=NAMES, default=EMPTY, help="Values to leave out of the comparison."),
        click.option(
            "--tolerance", type=NUMBERS, default=EMPTY, help="Minimum cosine and Euclidean similarity: 0.9,0.7."
        ),
    ),
    "Planning and memory": (planning_options, pool_options),
}
"""The options by help section, after the command's own."""


def compiling_options(function: Function[R]) -> Function[R]:
    """Add the options of both commands. The command gets `choices`; boundary, labels, tables, and the comparison of
    stages are settings of its session.
    """

    @functools.wraps(function)
    def gathered(*arguments: Any, **settings: Any) -> R:
        choices = Choices(**{field.name: settings.pop(field.name) for field in fields(Choices)})
        return function(*arguments, choices=choices, **settings)

    result: Function[R] = gathered
    for title, options in reversed(tuple(SECTIONS.items())):
        result = in_section(title, *options)(result)
    return result
