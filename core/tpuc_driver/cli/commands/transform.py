"""`tpuc transform`: import a network file as a TOP module, and compare it with its framework on an input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from tpuc.errors import UsageError
from tpuc.files import file_stem

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.options import layout_option, post_option, preprocess_options, specializing_options
from tpuc_driver.cli.outputs import beside, check_output
from tpuc_driver.cli.session import check_inputs, check_outputs, is_said, open_session
from tpuc_driver.cli.values import EMPTY, FILE, NAMES, NUMBERS, OUTPUT, PATHS, POSITIVE, SHAPES

if TYPE_CHECKING:
    from tpuc_driver.session.settings import NetworkSettings


@click.command(
    "transform",
    cls=Command,
    section="Step by step",
    examples=("tpuc transform --model-name net --model-def net.onnx --mlir net.mlir",),
)
@click.option("--model-name", required=True, help="Name of the module; files are named after it.")
@click.option("--model-def", type=FILE, required=True, metavar="FILE", help="The network (.onnx, .tflite, .prototxt).")
@click.option("--model-data", type=FILE, metavar="FILE", help="Weights of the network, if they are in a separate file.")
@click.option("--random-weights", is_flag=True, help="Initialize missing weights randomly.")
@click.option("--input-shapes", type=SHAPES, default=EMPTY, help="Shapes of dynamic inputs: [[1,3,224,224]].")
@click.option("--batch", type=POSITIVE, help="Batch size of every input.")
@layout_option
@preprocess_options
@specializing_options
@click.option("--output-names", type=NAMES, default=EMPTY, help="Cut the network at these values.")
@click.option("--test-input", type=PATHS, default=EMPTY, help="Compare with the framework on this npz, npy or image.")
@click.option("--test-result", type=OUTPUT, metavar="FILE.npz", help="Write every value of the comparison.")
@click.option("--tolerance", type=NUMBERS, default=EMPTY, help="Minimum cosine and Euclidean similarity: 0.99,0.99.")
@click.option("--excepts", type=NAMES, default=EMPTY, help="Values to leave out of the comparison.")
@post_option
@click.option("--mlir", type=OUTPUT, required=True, metavar="FILE.mlir", help="The module to write.")
@pass_app
def command(
    app: App,
    model_def: Path,
    input_layout: str | None,
    test_input: tuple[Path, ...],
    test_result: Path | None,
    tolerance: tuple[float, ...],
    excepts: tuple[str, ...],
    mlir: Path,
    **settings: Unpack[NetworkSettings],
) -> None:
    """Convert a network to a TOP module (.mlir and .npz).

    With --test-input, more files are written beside it: NAME_in_f32.npz, the input as the module takes it;
    NAME_origin.mlir with NAME_top_f32_all_weight.npz, the module before any pass; for ONNX files also NAME_opt.onnx,
    the simplified network, and NAME_opt.onnx.prototxt, its graph as text.
    """
    if not test_input and any(map(is_said, ("test_result", "excepts", "tolerance"))):
        raise UsageError("--test-result, --excepts and --tolerance require --test-input; add --test-input FILE.")
    check_inputs(model_def, settings.get("model_data"), *test_input)
    check_outputs(mlir)
    session = open_session(app, input_layout=input_layout)
    if not test_input:
        session.save(session.transform(model_def, **settings), mlir)
        return
    check_kept(mlir.parent / file_stem(settings.get("model_name", "")), [model_def, *test_input], [mlir, test_result])
    with beside(mlir, test_input) as keep_in:
        settings["keep_in"] = keep_in
        module = session.transform(model_def, **settings)
        report = session.verify_transform(
            model_def,
            module,
            batch=settings.get("batch"),
            model_data=settings.get("model_data"),
            input_names=settings.get("input_names", ()),
            dims=settings.get("dims"),
            fixed_inputs=settings.get("fixed_inputs"),
            keep_in=keep_in,
            test_input=test_input,
            test_result=test_result,
            excepts=excepts,
            tolerance=tolerance,
        )
        app.result(report.text())
        session.save(module, mlir)


def check_kept(stem: Path, inputs: Sequence[Path], outputs: Sequence[Path | None]) -> None:
    """Raise UsageError when an intermediate file written next to the module would overwrite another file."""
    for ending in ("_origin.mlir", "_opt.onnx", "_opt.onnx.prototxt"):
        path = stem.with_name(f"{stem.name}{ending}")
        check_output("--model-name", path, inputs)
        check_output("--model-name", path, outputs, "output")
