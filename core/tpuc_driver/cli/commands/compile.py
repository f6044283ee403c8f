"""`tpuc compile`: compile a network file in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.options import (
    agreement_option,
    boundary_options,
    bundle_option,
    dataset_option,
    labels_option,
    layout_option,
    planning_options,
    post_option,
    preprocess_options,
    runtime_option,
)
from tpuc_driver.cli.pools import PoolChoice, PoolsCommand, pool_options
from tpuc_driver.cli.sections import in_section
from tpuc_driver.cli.session import (
    check_belongings,
    check_bundle,
    check_inputs,
    check_one_data_source,
    check_outputs,
    chosen_chips,
    compiled_file,
    open_session,
    show_report,
    write_bundle,
)
from tpuc_driver.cli.values import COUNT, COUNTS, EMPTY, FILE, MODE, NAMES, NUMBERS, OUTPUT, PATHS, POSITIVE, SHAPES

if TYPE_CHECKING:
    from tpuc_driver.session.settings import CompileSettings


@click.command(
    "compile",
    cls=PoolsCommand,
    section="Compile",
    examples=(
        "tpuc compile net.onnx --chip {chip}",
        "tpuc compile net.onnx --chip {chip} --quantize int8 --dataset images/ -o FILE",
        "tpuc compile net.onnx --chip {chip} --quantize int8 --dataset images/ --min-accuracy 99% -o FILE",
    ),
)
@click.argument("network", metavar="MODEL", type=FILE)
@in_section(
    "Target and files",
    click.option(
        "--chip", help="What to compile for (`tpuc plugins` lists them), several between commas, or one of --target."
    ),
    click.option(
        "--quantize", type=MODE, help="f32, f16, bf16, int8, int8-asym, ...; left out, network and chip decide."
    ),
    click.option(
        "-o", "--model", "output", type=OUTPUT, metavar="FILE", help="The compiled file; named after MODEL by default."
    ),
    runtime_option,
    click.option("--report", "report_path", type=OUTPUT, metavar="FILE.json", help="Write the report as JSON."),
    bundle_option,
    click.option("--work-dir", type=FILE, metavar="DIR", help="Keep every intermediate file here."),
)
@in_section(
    "Network",
    click.option("--model-data", type=FILE, metavar="FILE", help="Weights of the network, if in a separate file."),
    click.option("--random-weights", is_flag=True, help="Initialize missing weights randomly."),
    click.option(
        "--input-shapes",
        type=SHAPES,
        multiple=True,
        help="Shapes of dynamic inputs: [[1,3,224,224]]; one file for all that are given.",
    ),
    click.option(
        "--batch", "batches", type=COUNTS, default=EMPTY, help="Batch size of every input; one file for several: 1,4."
    ),
    click.option("--output-names", type=NAMES, default=EMPTY, help="Cut the network at these values."),
    post_option,
    labels_option,
)
@in_section(
    "Calibration (int8)",
    dataset_option("Folder of samples to calibrate with."),
    click.option("--data-list", type=FILE, metavar="FILE", help="File that lists samples, one per line."),
    click.option("--input-num", type=COUNT, default=0, show_default=True, help="Number of samples to use; 0: all."),
    click.option("--calibration-table", type=FILE, metavar="FILE", help="Use an existing table instead of samples."),
    click.option("--calibration-method", default="kld", show_default=True, help="Method that chooses thresholds."),
    click.option("--quantize-table", type=FILE, metavar="FILE", help="Modes of single ops, found by `tpuc qtable`."),
    click.option(
        "--symmetric-divisor", type=POSITIVE, help="Divisor of signed symmetric scales; the chip's own by default."
    ),
)
@in_section("Pictures", preprocess_options, layout_option)
@in_section("Inputs and outputs of the file", boundary_options)
@in_section(
    "Accuracy",
    agreement_option,
    click.option(
        "--min-accuracy",
        metavar="FIGURE",
        help="Find the fastest network with at least this accuracy: 0.99, or relative to float's: 99%.",
    ),
    click.option(
        "--measure", metavar="NAME", help="Measure of accuracy: decisions (default), or labels{option=value,...}."
    ),
    click.option(
        "--max-trials", type=POSITIVE, help="Maximum number of networks to try for --min-accuracy; 40 by default."
    ),
    click.option(
        "--accept-point-estimate",
        is_flag=True,
        default=None,
        help="Let --min-accuracy go by the figure on few held-out samples, however uncertain.",
    ),
)
@in_section(
    "Comparison of the stages",
    click.option("--test-input", type=PATHS, default=EMPTY, help="Compare every stage on this npz, npy, or image."),
    click.option("--excepts", type=NAMES, default=EMPTY, help="Values to leave out of the comparison."),
    click.option("--tolerance", type=NUMBERS, default=EMPTY, help="Minimum cosine and Euclidean similarity: 0.9,0.7."),
)
@in_section("Planning and memory", planning_options, pool_options)
@pass_app
def command(
    app: App,
    network: Path,
    chip: str | None,
    quantize: str | None,
    symmetric_divisor: int | None,
    runtime_version: str | None,
    planner: str | None,
    opt: int | None,
    cpu_ops: tuple[str, ...],
    input_layout: str | None,
    batches: tuple[int, ...],
    memory_plan: Path | None,
    pools: PoolChoice,
    output: Path | None,
    report_path: Path | None,
    bundle: Path | None,
    work_dir: Path | None,
    **settings: Unpack[CompileSettings],
) -> None:
    """Compile a network for one or several chips.

    With `--chip ONE,OTHER -o net` the files are net_ONE and net_OTHER, with the endings of the chips.
    """
    from tpuc_driver.data import sets_of

    dataset, data_list = settings.get("dataset"), settings.get("data_list")
    check_one_data_source(dataset, data_list)
    folders = [one.path for one in sets_of(dataset)]
    modes = settings.get("quantize_table")
    given = (settings.get("model_data"), *folders, data_list, settings.get("calibration_table"))
    check_inputs(network, modes if isinstance(modes, Path) else None, *given, *settings.get("test_input", ()))
    check_belongings()
    shapes: Any = list(dict.fromkeys(settings.pop("input_shapes", ()))) or [()]
    settings["input_shapes"], settings["batch"] = shapes[0], batches[0] if batches else None
    is_one = len(shapes) == 1 and len(batches) < 2
    wanted = chosen_chips(app, chip, pools, output, network)
    if len(wanted) > 1 and (report_path or memory_plan):
        raise UsageError("--report and --memory-plan write one file; compile for one chip at a time.")
    if not is_one and (report_path or memory_plan):
        raise UsageError(
            "--report and --memory-plan describe one set of shapes; give a single --input-shapes and --batch."
        )
    if bundle is not None and (len(wanted) > 1 or not is_one):
        raise UsageError("--bundle takes one network for one chip; give a single --chip, --input-shapes and --batch.")
    files = [compiled_file(app, name, path) for name, path in wanted]
    check_outputs(*files, memory_plan, report_path)
    if bundle is not None:
        check_bundle(bundle)
    sessions = [
        open_session(
            app,
            chip=name,
            quantize=quantize,
            work_dir=work_dir,
            symmetric_divisor=symmetric_divisor,
            runtime_version=runtime_version,
            planner=planner,
            opt=opt,
            cpu_ops=cpu_ops,
            input_layout=input_layout,
            pools=pools,
        )
        for name, _ in wanted
    ]
    for session, (_, path) in zip(sessions, wanted, strict=True):
        if is_one:
            show_report(app, session.compile(network, path, **settings), report_path, memory_plan, work_dir)
            continue
        every = list(dict.fromkeys(batches)) or [None]
        for report in session.compile_shapes(network, path, shapes, every, **settings):
            app.result(report.text())
    if bundle is not None:
        write_bundle(app, sessions[0], wanted[0][1], bundle)
