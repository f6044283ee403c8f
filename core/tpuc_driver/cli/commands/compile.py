"""`tpuc compile`: compile a network file in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.compiling import Choices, compiling_options
from tpuc_driver.cli.options import (
    agreement_option,
    dataset_option,
    force_option,
    post_option,
    preprocess_options,
    specializing_options,
)
from tpuc_driver.cli.pools import PoolsCommand
from tpuc_driver.cli.sections import in_section
from tpuc_driver.cli.session import (
    check_belongings,
    check_inputs,
    check_one_data_source,
    chosen_chips,
    compiled_file,
)
from tpuc_driver.cli.values import COUNT, COUNTS, EMPTY, FILE, NAMES, OUTPUT, POSITIVE, SHAPES

if TYPE_CHECKING:
    from tpuc_driver.api.board import Board
    from tpuc_driver.session.settings import CompileSettings


def _bits(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """The bits that a word stands for."""
    return 16 if value == "none" else None if value is None else int(value)


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
        "--board",
        "board_name",
        metavar="NAME",
        help="Compile for a board's chip and memory: duo256.",
    ),
    click.option(
        "-o", "--model", "output", type=OUTPUT, metavar="FILE", help="The compiled file; named after MODEL by default."
    ),
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
    specializing_options,
    click.option("--output-names", type=NAMES, default=EMPTY, help="Cut the network at these values."),
    post_option,
)
@in_section(
    "Calibration (int8)",
    dataset_option("Folder of samples to calibrate with."),
    click.option("--data-list", type=FILE, metavar="FILE", help="File that lists samples, one per line."),
    click.option("--input-num", type=COUNT, default=0, show_default=True, help="Number of samples to use; 0: all."),
    click.option("--calibration-method", default="kld", show_default=True, help="Method that chooses thresholds."),
    force_option,
)
@in_section(
    "Weights as integers (w4f16)",
    click.option(
        "--group-size", type=COUNT, help="Numbers of a row that share a scale: 32, 64 (default) or 128; 0: the row."
    ),
    click.option("--symmetric", is_flag=True, default=None, help="No zero points: scales for plus and minus alike."),
    click.option(
        "--quantize-head",
        "head_bits",
        type=click.Choice(["4", "8", "none"]),
        callback=_bits,
        help="Bits of the matrix before the logits of a language model; chosen where it is left out.",
    ),
)
@in_section("Pictures", preprocess_options)
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
        help="For --min-accuracy, accept the figure on few held-out samples, however uncertain.",
    ),
)
@compiling_options
@pass_app
def command(
    app: App,
    network: Path,
    chip: str | None,
    board_name: str | None,
    batches: tuple[int, ...],
    output: Path | None,
    choices: Choices,
    **settings: Unpack[CompileSettings],
) -> None:
    """Compile a network for one or several chips.

    With `--chip ONE,OTHER -o net`, the files are net_ONE and net_OTHER, with the suffixes of the chips.
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
    if board_name is not None:
        board: Board = app.registry.get("tpuc.boards", board_name)
        if chip is not None and board.refuses_chip(chip):
            raise UsageError(f"--board {board_name} has a {board.chip}, not --chip {chip}; leave out --chip.")
        chip, settings["board"] = board.chip, board
    wanted = chosen_chips(app, chip, choices.pools, output, network)
    if len(wanted) > 1 and (choices.report_path or choices.memory_plan):
        raise UsageError("--report and --memory-plan write one file; compile for one chip at a time.")
    if not is_one and (choices.report_path or choices.memory_plan):
        raise UsageError(
            "--report and --memory-plan describe one set of shapes; give a single --input-shapes and --batch."
        )
    if choices.bundle is not None and (len(wanted) > 1 or not is_one):
        raise UsageError("--bundle takes one network for one chip; give a single --chip, --input-shapes and --batch.")
    choices.check_outputs(*(compiled_file(app, name, path) for name, path in wanted))
    sessions = [choices.session(app, name) for name, _ in wanted]
    for session, (_, path) in zip(sessions, wanted, strict=True):
        if is_one:
            choices.show(app, session.compile(network, path, **settings))
            continue
        every = list(dict.fromkeys(batches)) or [None]
        for report in session.compile_shapes(network, path, shapes, every, **settings):
            app.result(report.text())
    choices.write_bundle(app, sessions[0], wanted[0][1])
