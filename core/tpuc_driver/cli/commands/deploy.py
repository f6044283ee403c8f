"""`tpuc deploy`: compile a TOP module, and compare the stages on an input if one is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.options import (
    boundary_options,
    bundle_option,
    labels_option,
    layout_option,
    planning_options,
    runtime_option,
)
from tpuc_driver.cli.outputs import beside
from tpuc_driver.cli.pools import PoolChoice, PoolsCommand, pool_options
from tpuc_driver.cli.session import (
    check_belongings,
    check_bundle,
    check_inputs,
    check_outputs,
    chosen_chip,
    compiled_file,
    open_session,
    show_report,
    write_bundle,
)
from tpuc_driver.cli.values import EMPTY, FILE, MODE, NAMES, NUMBERS, OUTPUT, PATHS, POSITIVE

if TYPE_CHECKING:
    from tpuc_driver.session.settings import DeploySettings


@click.command(
    "deploy",
    cls=PoolsCommand,
    section="Step by step",
    examples=("tpuc deploy --mlir net.mlir --chip {chip} --quantize int8 --calibration-table net_cali_table -o FILE",),
)
@click.option("--mlir", type=FILE, required=True, metavar="FILE.mlir", help="The TOP module.")
@click.option("--chip", help="The chip to compile for (`tpuc plugins` lists them), or one of --target.")
@click.option("--quantize", type=MODE, help="f32, f16, bf16, int8, int8-asym, ...; left out, network and chip decide.")
@click.option("--asymmetric", is_flag=True, help="With int8: allow ranges that are not centered on zero.")
@click.option("--quantize-table", type=FILE, metavar="FILE", help="Modes of single ops, instead of --quantize.")
@click.option("--calibration-table", type=FILE, metavar="FILE", help="Value ranges; int8 needs them.")
@click.option("--tolerance", type=NUMBERS, default=EMPTY, help="Minimum cosine and Euclidean similarity: 0.9,0.7.")
@boundary_options
@labels_option
@click.option("--test-input", type=PATHS, default=EMPTY, help="Compare every stage on this npz, npy, or image.")
@layout_option
@click.option("--test-reference", type=FILE, metavar="FILE.npz", help="Values of the float network on that input.")
@click.option("--excepts", type=NAMES, default=EMPTY, help="Values to leave out of the comparison.")
@click.option(
    "--symmetric-divisor", type=POSITIVE, help="Divisor of signed symmetric scales; the chip's own by default."
)
@runtime_option
@planning_options
@pool_options
@click.option("-o", "--model", "output", type=OUTPUT, required=True, metavar="FILE", help="The compiled file to write.")
@click.option("--report", "report_path", type=OUTPUT, metavar="FILE.json", help="Write the report as JSON.")
@bundle_option
@click.option("--work-dir", type=FILE, metavar="DIR", help="Keep every intermediate file here.")
@pass_app
def command(
    app: App,
    mlir: Path,
    chip: str | None,
    quantize: str | None,
    asymmetric: bool,
    symmetric_divisor: int | None,
    runtime_version: str | None,
    planner: str | None,
    opt: int | None,
    cpu_ops: tuple[str, ...],
    input_layout: str | None,
    memory_plan: Path | None,
    pools: PoolChoice,
    output: Path,
    report_path: Path | None,
    bundle: Path | None,
    work_dir: Path | None,
    **settings: Unpack[DeploySettings],
) -> None:
    """Compile a TOP module to a file.

    The module as it was lowered lies beside the file, or in --work-dir: NAME_CHIP_MODE_tpu.mlir, as in
    net_newchip_int8_sym_tpu.mlir. `tpuc visual`, `tpuc eval` and `tpuc run` take it.
    """
    given = (settings.get("quantize_table"), settings.get("calibration_table"), settings.get("test_reference"))
    check_inputs(mlir, *(path for path in given if isinstance(path, Path)), *settings.get("test_input", ()))
    check_belongings()
    chip = chosen_chip(app, chip, pools)
    check_outputs(compiled_file(app, chip, output), memory_plan, report_path)
    if bundle is not None:
        check_bundle(bundle)
    session = open_session(
        app,
        chip=chip,
        quantize=asymmetric_mode(quantize) if asymmetric else quantize,
        work_dir=work_dir,
        symmetric_divisor=symmetric_divisor,
        runtime_version=runtime_version,
        planner=planner,
        opt=opt,
        cpu_ops=cpu_ops,
        input_layout=input_layout,
        pools=pools,
    )
    module = session.load(mlir)
    with beside(output) as settings["keep_in"]:
        report = session.deploy(module, output, **settings)
    show_report(app, report, report_path, memory_plan, work_dir)
    if bundle is not None:
        write_bundle(app, session, output, bundle)


def asymmetric_mode(mode: str | None) -> str:
    """The mode that `--asymmetric` makes of a mode; raises UsageError for one without ranges."""
    if mode is None:
        raise UsageError("--asymmetric has no effect without --quantize; add --quantize int8.")
    if mode.endswith("-asym"):
        return mode
    if not mode.startswith("int"):
        raise UsageError(f"--asymmetric has no effect with --quantize {mode}; use it with int8.")
    return f"{mode}-asym"
