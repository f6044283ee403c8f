"""`tpuc node-data`: errors and cycles of layers, for Model Explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from tpuc.api import write_atomic
from tpuc_driver.api.command import FILE, OUTPUT, PATHS, App, Command, check_inputs, open_compiled, pass_app


@click.command(
    "node-data",
    cls=Command,
    section="Accuracy",
    examples=("tpuc node-data net.mlir lowered.mlir --input sample.npz --compiled FILE -o data/",),
)
@click.argument("exact", metavar="FLOAT.mlir", type=FILE)
@click.argument("quantized", metavar="QUANT.mlir", type=FILE)
@click.option("--input", "inputs", type=PATHS, required=True, help="The sample to run both on: npz, npy or image.")
@click.option("--compiled", type=FILE, metavar="FILE", help="What was made of it, for the cycles of its layers.")
@click.option("-o", "--output", type=OUTPUT, required=True, metavar="DIR", help="The folder for the files.")
@pass_app
def command(
    app: App, exact: Path, quantized: Path, inputs: tuple[Path, ...], compiled: Path | None, output: Path
) -> None:
    """Write errors, and cycles, of the layers of a quantized network as node data of Model Explorer.

    The files are errors.json, with SQNR in dB, and cycles.json.
    """
    check_inputs(exact, quantized, *inputs, compiled)
    from tpuc.api import read_module
    from tpuc_profile.making import make_report, profile_named
    from tpuc_visual.similarity import compare_networks

    from tpuc_model_explorer.graph import GRADIENT, HEAT, node_data

    one, other = (read_module(path, app.registry.resolve_op) for path in (exact, quantized))
    alike = compare_networks(one, other, inputs, app.registry)
    errors = {name: figures.sqnr_db for name, figures in alike.items()}
    files = {"errors.json": node_data(other.name, "SQNR dB", errors, GRADIENT)}
    if compiled is not None:
        chip, loaded = open_compiled(app, compiled)
        report = make_report(compiled, chip, loaded, profile_named(chip, None))
        cycles = {report.step_name(step): float(step.busy_cycles) for step in report.analysis.steps}
        files["cycles.json"] = node_data(other.name, "cycles of both engines", cycles, HEAT)
    output.mkdir(exist_ok=True)
    for name, values in files.items():
        write_atomic(output / name, _text(values))
    app.remark(f"{output}: {', '.join(files)} for model-explorer --extensions=tpuc_model_explorer")


def _text(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
