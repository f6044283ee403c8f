"""`tpuc calibrate`: find the range of every value of a TOP module on sample data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tpuc.files import check_writable, undone_on_failure

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.options import agreement_option, dataset_option, force_option, layout_option
from tpuc_driver.cli.outputs import check_output
from tpuc_driver.cli.session import check_inputs, check_one_data_source, open_session
from tpuc_driver.cli.values import COUNT, FILE, OUTPUT, POSITIVE

if TYPE_CHECKING:
    from tpuc_driver.data import SampleSet


@click.command(
    "calibrate",
    cls=Command,
    section="Step by step",
    examples=(
        "tpuc calibrate net.mlir --dataset images/ --input-num 100 -o net_cali_table",
        "tpuc calibrate net.mlir --dataset images/ -o net_cali_table --explain=conv1",
    ),
)
@click.argument("mlir", metavar="FILE.mlir", type=FILE)
@dataset_option("Folder of samples (images, npz or npy).")
@click.option("--data-list", type=FILE, metavar="FILE", help="File that lists samples, one per line.")
@layout_option
@click.option("--input-num", type=COUNT, default=0, show_default=True, help="Number of samples to use; 0: all.")
@click.option("--method", default="kld", show_default=True, help="Method that chooses thresholds.")
@click.option("--histogram-bin-num", type=POSITIVE, default=2048, show_default=True, help="Bins.")
@click.option("--tune-num", type=COUNT, default=16, show_default=True, help="Samples for tuning; 0: no tuning.")
@click.option("--bias-num", type=COUNT, default=16, show_default=True, help="Samples for bias correction; 0: none.")
@click.option(
    "--headroom",
    type=click.FloatRange(1.0),
    metavar="FACTOR",
    help="Widen thresholds to values this many times as large as in the samples.",
)
@click.option("--workers", type=POSITIVE, help="Worker processes instead of threads; the table is the same.")
@click.option("--cluster", default="", metavar="ADDRESS", help="Address of a dask scheduler, instead of --workers.")
@click.option("--resume", type=FILE, metavar="FILE.npz", help="Statistics to continue from; the file is updated.")
@click.option("--strict", is_flag=True, help="Fail if samples look wrong or cannot be read.")
@force_option
@agreement_option
@click.option(
    "--explain",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Print what decided the threshold of a value, or without NAME how candidate tables were compared.",
)
@click.option("-o", "output", type=OUTPUT, required=True, metavar="FILE", help="The calibration table to write.")
@pass_app
def command(
    app: App,
    mlir: Path,
    dataset: Sequence[SampleSet] | None,
    data_list: Path | None,
    input_layout: str | None,
    input_num: int,
    method: str,
    histogram_bin_num: int,
    tune_num: int,
    bias_num: int,
    headroom: float | None,
    workers: int | None,
    cluster: str,
    resume: Path | None,
    strict: bool,
    force: bool | None,
    min_agreement: float | None,
    explain: str | None,
    output: Path,
) -> None:
    """Measure value ranges on sample data, and write a calibration table."""
    check_one_data_source(dataset, data_list, required=True)
    folders = [one.path for one in dataset or ()]
    check_inputs(mlir, *folders, data_list)
    check_writable(output)
    # Statistics lie beside the table, so that it can take in more samples later.
    statistics = resume or output.with_name(f"{output.name}.npz")
    if resume is None:
        check_output("statistics", statistics, (mlir, *folders, data_list))
    check_writable(statistics)
    session = open_session(app, input_layout=input_layout)
    options = {
        "tune_num": tune_num,
        "bias_num": bias_num,
        "headroom": headroom or 0.0,
        "workers": workers or 0,
        "cluster": cluster,
        "resume": str(resume or ""),
        "statistics": str(statistics),
        "lint": True,
        "strict": strict,
        "force": bool(force),
    }
    with undone_on_failure(statistics):
        table, check = session.calibrate_and_check(
            session.load(mlir),
            dataset=dataset,
            data_list=data_list,
            input_num=input_num,
            method=method,
            histogram_bin_num=histogram_bin_num,
            options=options,
            min_agreement=min_agreement,
        )
        explained = None if explain is None else table.explain(explain)
        table.write(output)
    if explained is not None:
        app.result(explained)
    if check is not None:
        app.result(check.text())
