"""`tpuc qtable`: find the layers that should stay in float, and write them as a quantize table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tpuc.api import TpucError, write_atomic
from tpuc_driver.api.command import (
    COUNT,
    FILE,
    MODE,
    NUMBER,
    OUTPUT,
    POSITIVE,
    App,
    Command,
    check_inputs,
    check_one_data_source,
    check_writable,
    open_session,
    pass_app,
)

if TYPE_CHECKING:
    from tpuc_driver.api.host import Session

SLOWER = 1.2
"""Latency ratio to no float layers above which a table is remarked on."""


@click.command(
    "qtable",
    cls=Command,
    section="Accuracy",
    examples=("tpuc qtable net.mlir --chip {chip} --calibration-table net_cali_table --dataset images/ -o net_qtable",),
)
@click.argument("mlir", metavar="FILE.mlir", type=FILE)
@click.option("--chip", required=True, help="The chip to compile for (`tpuc plugins` lists them).")
@click.option("--quantize", type=MODE, default="int8", show_default=True, help="The mode of all other layers.")
@click.option("--calibration-table", type=FILE, required=True, metavar="FILE", help="Made by `tpuc calibrate`.")
@click.option("--dataset", type=FILE, metavar="DIR", help="Folder of samples (images, npz or npy).")
@click.option("--data-list", type=FILE, metavar="FILE", help="File that lists samples, one per line.")
@click.option("--input-num", type=COUNT, default=10, show_default=True, help="Number of samples to use; 0: all.")
@click.option("--float-mode", type=MODE, default="", help="f32, bf16 or f16; the fastest by default.")
@click.option(
    "--max-float-layers", type=POSITIVE, default=5, show_default=True, help="Maximum number of layers in floats."
)
@click.option("--min-cosine", type=NUMBER, help="Keep as few layers in floats as reach this cosine at the outputs.")
@click.option("--max-latency", type=NUMBER, metavar="MS", help="Maximum latency by the chip's timing model.")
@click.option("--latency", is_flag=True, help="Time every network, for the front of accuracy and latency.")
@click.option("--workers", type=POSITIVE, help="Worker processes instead of a thread per core.")
@click.option("--cluster", default="", metavar="ADDRESS", help="Address of a dask scheduler, instead of --workers.")
@click.option("--loss-table", type=OUTPUT, metavar="FILE", help="Write what each layer alone loses.")
@click.option("-o", "output", type=OUTPUT, required=True, metavar="FILE", help="The quantize table to write.")
@pass_app
def command(
    app: App,
    mlir: Path,
    chip: str,
    quantize: str,
    calibration_table: Path,
    dataset: Path | None,
    data_list: Path | None,
    input_num: int,
    float_mode: str,
    max_float_layers: int,
    min_cosine: float | None,
    max_latency: float | None,
    latency: bool,
    workers: int | None,
    cluster: str,
    loss_table: Path | None,
    output: Path,
) -> int:
    """Find the layers to keep in floats."""
    check_one_data_source(dataset, data_list, required=True)
    check_inputs(mlir, calibration_table, dataset, data_list)
    for path in (output, loss_table):
        if path is not None:
            check_writable(path)
    session = open_session(app, chip=chip, quantize=quantize)
    from tpuc_accuracy.mixed_precision.timed_search import search_quantize_table

    options = {
        "dataset": str(dataset or ""),
        "data_list": str(data_list or ""),
        "input_num": input_num,
        "max_float_layers": max_float_layers,
        "float_mode": float_mode,
        "workers": workers or 0,
        "cluster": cluster,
    }
    timed = latency or max_latency is not None
    found = search_quantize_table(session, session.load(mlir), calibration_table, latencies=timed, options=options)
    if loss_table is not None:
        write_atomic(loss_table, found.loss_text())
    app.table(_front(found, session))
    chosen = found.choose(min_cosine, max_latency)
    if chosen is None:
        limits = [f"cosine of at least {min_cosine:g}"] if min_cosine is not None else []
        limits += [f"latency of at most {max_latency:g} ms"] if max_latency is not None else []
        raise TpucError(
            f"no network with at most {max_float_layers} float layers has a {' and a '.join(limits)}; raise "
            "--max-float-layers, or relax the limit"
        )
    write_atomic(output, found.table_text(chosen))
    app.remark(f"{output}: {len(chosen.floats)} layers in {found.float_mode}, cosine {chosen.cosine:.6f}")
    plain = found.points[0]
    if chosen.milliseconds is not None and chosen.milliseconds > SLOWER * plain.milliseconds:
        app.remark(
            f"with it the network takes {_cycles(chosen, session)} cycles instead of {_cycles(plain, session)}, "
            f"{chosen.milliseconds / plain.milliseconds:.2f} times as long, for {plain.loss - chosen.loss:.1f} dB; "
            "--max-latency MS, --latency or a smaller --max-float-layers finds a faster one"
        )
    return 0


def _front(found: Any, session: Session) -> list[tuple[str, ...]]:
    """The network without float layers, and those on the Pareto front of accuracy and cost."""
    rows = [("float layers", "cosine", "SQNR dB", "cycles", "latency ms", "last added")]
    for point in dict.fromkeys((*found.points[:1], *found.front())):
        time = "-" if point.milliseconds is None else f"{point.milliseconds:.3f}"
        last = point.floats[-1] if point.floats else ""
        figures = (f"{point.cosine:.6f}", f"{-point.loss:.2f}", _cycles(point, session), time)
        rows.append((str(len(point.floats)), *figures, last))
    return rows


def _cycles(point: Any, session: Session) -> str:
    if point.milliseconds is None:
        return "-"
    return f"{round(point.milliseconds * session.chip.description.clock_hz / 1000):,}"
