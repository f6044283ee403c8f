"""`tpuc visual`: show the float and the quantized network side by side, on a local server or as a file."""

from __future__ import annotations

from pathlib import Path

import click
from tpuc.api import write_atomic
from tpuc_driver.api.command import COUNT, FILE, OUTPUT, PATHS, App, Command, check_inputs, check_writable, pass_app


@click.command(
    "visual",
    cls=Command,
    section="Accuracy",
    examples=("tpuc visual --f32-mlir net.mlir --quant-mlir lowered.mlir --input sample.npz -o page.html",),
)
@click.option("--f32-mlir", "--fp32-mlir", "exact", type=FILE, required=True, metavar="FILE.mlir", help="TOP module.")
@click.option(
    "--quant-mlir", "quantized", type=FILE, required=True, metavar="FILE.mlir", help="Module lowered from it."
)
@click.option("--input", "inputs", type=PATHS, required=True, help="Sample to run both on: npz, npy, or image.")
@click.option("--port", type=COUNT, default=10000, show_default=True, help="Port of the page; 0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 allows other machines.")
@click.option("--manual-run", is_flag=True, help="Run the networks only on request from the page.")
@click.option("-o", "--output", type=OUTPUT, metavar="FILE.html", help="Write the page instead of serving it.")
@pass_app
def command(
    app: App,
    exact: Path,
    quantized: Path,
    inputs: tuple[Path, ...],
    port: int,
    host: str,
    manual_run: bool,
    output: Path | None,
) -> None:
    """Show the float and the quantized network side by side.

    Tensors that the float network does not have are marked NA.
    """
    check_inputs(exact, quantized, *inputs)
    if output is not None:
        check_writable(output)
    from tpuc.api import read_module
    from tpuc_driver.api.host import calibrated_on, inputs_of, seen_among

    from tpuc_visual.graph import layers_of
    from tpuc_visual.page import Networks
    from tpuc_visual.pictures import weights_of
    from tpuc_visual.server import Visual, is_private, make_server
    from tpuc_visual.similarity import compare_networks

    one, other = (read_module(path, app.registry.resolve_op) for path in (exact, quantized))
    if remark := seen_among(inputs_of(one), inputs, calibrated_on(other), app.registry):
        app.remark(remark)
    networks = Networks(
        exact.name,
        quantized.name,
        layers_of(one),
        layers_of(other),
        exact_weights=weights_of(one),
        quantized_weights=weights_of(other),
        remark=remark,
    )
    visual = Visual(networks, lambda: compare_networks(one, other, inputs, app.registry))
    if output is not None:
        if not manual_run:
            visual.run()
        write_atomic(output, visual.page())
        return
    server = make_server(visual, host, port)
    if not is_private(host):
        app.remark(
            f"--host {host}: other machines can see and run the networks; leave it out to allow this machine only"
        )
    try:
        if not manual_run:
            visual.run()
        app.remark(f"http://{host}:{server.server_port}/ serves the networks; stop with Ctrl-C")
        server.serve_forever()
    except KeyboardInterrupt:
        app.remark("stopped")
    finally:
        server.server_close()
