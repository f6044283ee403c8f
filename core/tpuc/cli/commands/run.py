"""`tpuc run`: execute a network in any runnable format on given inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command
from tpuc.cli.options import layout_option, preprocess_options
from tpuc.cli.session import check_inputs, open_session
from tpuc.cli.text import columns
from tpuc.cli.values import FILE, OUTPUT, PATHS
from tpuc.files import check_writable


@click.command("run", cls=Command)
@click.option("--input", "inputs", type=PATHS, required=True, help="npz, npy or image; several for several inputs.")
@click.option("--model", type=FILE, required=True, metavar="FILE", help="Network file, .mlir or compiled file.")
@click.option(
    "-o", "--output", type=OUTPUT, metavar="FILE.npz", help="Write the results; without it they are only listed."
)
@layout_option
@preprocess_options
@click.option("--dump-all-tensors", is_flag=True, help="Give every value of the network, not only its outputs.")
@pass_app
def command(
    app: App,
    inputs: tuple[Path, ...],
    model: Path,
    output: Path | None,
    input_layout: str | None,
    preprocess: Mapping[str, Any],
    dump_all_tensors: bool,
) -> None:
    """Execute a network on given inputs.

    Where a file takes quantised integers, arrays of integers are taken as they are and floats are quantised.
    """
    check_inputs(model, *inputs)
    if output is not None:
        check_writable(output)
    arrays = open_session(app, input_layout=input_layout).run(
        model, inputs, preprocess=preprocess, dump_all_tensors=dump_all_tensors
    )
    if output is not None:
        from tpuc.npz import write_npz

        write_npz(output, arrays)
    rows = [(name, "x".join(map(str, array.shape)), str(array.dtype)) for name, array in arrays.items()]
    app.result(columns(rows))
