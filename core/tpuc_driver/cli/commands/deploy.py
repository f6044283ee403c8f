"""`tpuc deploy`: compile a TOP module, and compare the stages on an input if one is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.compiling import Choices, compiling_options
from tpuc_driver.cli.outputs import beside
from tpuc_driver.cli.pools import PoolsCommand
from tpuc_driver.cli.sections import in_section
from tpuc_driver.cli.session import check_belongings, check_inputs, chosen_chip, compiled_file
from tpuc_driver.cli.values import FILE, OUTPUT

if TYPE_CHECKING:
    from tpuc_driver.session.settings import DeploySettings


@click.command(
    "deploy",
    cls=PoolsCommand,
    section="Step by step",
    examples=("tpuc deploy --mlir net.mlir --chip {chip} --quantize int8 --calibration-table net_cali_table -o FILE",),
)
@in_section(
    "Target and files",
    click.option("--mlir", type=FILE, required=True, metavar="FILE.mlir", help="The TOP module."),
    click.option("--chip", help="The chip to compile for (`tpuc plugins` lists them), or one of --target."),
    click.option(
        "-o", "--model", "output", type=OUTPUT, required=True, metavar="FILE", help="The compiled file to write."
    ),
    click.option("--asymmetric", is_flag=True, help="With int8: allow ranges that are not centered on zero."),
)
@in_section(
    "Comparison of the stages",
    click.option("--test-reference", type=FILE, metavar="FILE.npz", help="Values of the float network on that input."),
)
@compiling_options
@pass_app
def command(
    app: App,
    mlir: Path,
    chip: str | None,
    asymmetric: bool,
    output: Path,
    choices: Choices,
    **settings: Unpack[DeploySettings],
) -> None:
    """Compile a TOP module to a file.

    The lowered module is written beside the file, or to --work-dir: NAME_CHIP_MODE_tpu.mlir, as in
    net_newchip_int8_sym_tpu.mlir. `tpuc visual`, `tpuc eval`, and `tpuc run` read it.
    """
    given = (settings.get("quantize_table"), settings.get("calibration_table"), settings.get("test_reference"))
    check_inputs(mlir, *(path for path in given if isinstance(path, Path)), *settings.get("test_input", ()))
    check_belongings()
    chip = chosen_chip(app, chip, choices.pools)
    choices.check_outputs(compiled_file(app, chip, output))
    session = choices.session(app, chip, asymmetric_mode(choices.quantize) if asymmetric else None)
    module = session.load(mlir)
    with beside(output) as settings["keep_in"]:
        report = session.deploy(module, output, **settings)
    choices.show(app, report)
    choices.write_bundle(app, session, output)


def asymmetric_mode(mode: str | None) -> str:
    """The mode that `--asymmetric` makes of a mode; raises UsageError for one without ranges."""
    if mode is None:
        raise UsageError("--asymmetric has no effect without --quantize; add --quantize int8.")
    if mode.endswith("-asym"):
        return mode
    if not mode.startswith("int"):
        raise UsageError(f"--asymmetric has no effect with --quantize {mode}; use it with int8.")
    return f"{mode}-asym"
