"""`tpuc compare`: find the layers of a quantized network that lose accuracy, the causes, and remedies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tpuc_driver.api.command import (
    COUNT,
    EMPTY,
    FILE,
    PATHS,
    POSITIVE,
    App,
    Command,
    check_inputs,
    open_session,
    pass_app,
)


@click.command(
    "compare",
    cls=Command,
    section="Accuracy",
    examples=("tpuc compare net.mlir lowered.mlir --input sample.npz",),
)
@click.argument("exact", metavar="FLOAT.mlir", type=FILE)
@click.argument("quantized", metavar="QUANT.mlir", type=FILE)
@click.option("--input", "inputs", type=PATHS, default=EMPTY, required=True, help="Samples: npz, npy, or image files.")
@click.option("--input-num", type=POSITIVE, default=8, show_default=True, help="Maximum number of samples.")
@click.option(
    "--top",
    type=COUNT,
    default=5,
    show_default=True,
    help="Number of layers to suggest remedies for; if given, only these are listed, worst first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
@pass_app
def command(
    app: App, exact: Path, quantized: Path, inputs: tuple[Path, ...], input_num: int, top: int, as_json: bool
) -> None:
    """Show where a quantized network loses accuracy, and why."""
    check_inputs(exact, quantized, *inputs)
    session = open_session(app)
    from tpuc_accuracy.analysis.runs import compare_layers

    errors = compare_layers(session, exact, quantized, inputs, input_num)
    if as_json:
        app.result_json([_plain(error) for error in errors])
        return
    worst = sorted((error for error in errors if error.is_split), key=lambda error: _db(error.local, error.signal))
    is_chosen = click.get_current_context().get_parameter_source("top") is ParameterSource.COMMANDLINE
    names = {error.name for error in worst[:top]}
    app.table(_table(worst[:top] if is_chosen else errors), lambda row: "red" if row[0] in names else "")
    for error in worst[:top]:
        if error.remedy:
            app.result(f"{error.name}: mostly {error.cause}; {error.remedy}")


def _table(errors: list[Any]) -> list[tuple[str, ...]]:
    causes = list(errors[0].parts) if errors else []
    rows: list[tuple[str, ...]] = [
        ("layer", "op", "cosine", "euclid", "SQNR dB", "decisions", "own dB", *causes, "cross terms")
    ]
    for error in errors:
        shares = [*(error.parts[cause] for cause in causes), error.cross]
        split = [f"{share / error.local:.1%}" if error.is_split and error.local else "-" for share in shares]
        own = f"{_db(error.local, error.signal):.1f}" if error.is_split else "-"
        whole = f"{_db(error.noise, error.signal):.1f}"
        kept = "-" if error.kept is None else f"{error.kept.same}/{error.kept.total}"
        rows.append((error.name, error.op, f"{error.cosine:.6f}", f"{error.euclidean:.4f}", whole, kept, own, *split))
    return rows


def _plain(error: Any) -> dict[str, Any]:
    return {
        "layer": error.name,
        "op": error.op,
        "cosine": error.cosine,
        "euclidean": error.euclidean,
        "signal_energy": error.signal,
        "error_energy": error.noise,
        "decisions_kept": None if error.kept is None else error.kept.same,
        "decisions": None if error.kept is None else error.kept.total,
        "own_error_energy": error.local if error.is_split else None,
        "parts": dict(error.parts) if error.is_split else None,
        "cross_terms": error.cross if error.is_split else None,
        "remedy": error.remedy or None,
    }


def _db(noise: float, signal: float) -> float:
    from tpuc_driver.api.host import decibels

    return decibels(signal, noise)
