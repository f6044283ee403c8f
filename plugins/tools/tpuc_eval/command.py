"""`tpuc eval`: evaluate networks on labeled data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from tpuc.api import UsageError
from tpuc_driver.api.command import (
    COUNT,
    FILE,
    POSITIVE,
    App,
    Command,
    check_inputs,
    layout_option,
    pass_app,
    preprocess_options,
    trust_option,
)

if TYPE_CHECKING:
    from tpuc_eval.protocols import LabeledSamples, ModelFigures
    from tpuc_eval.runnable import RunnableFile

OF_MODELS = frozenset({"models", "model_files", "dataset", "metric", "count", "as_json"})
"""Parameters that metrics of whole models take too."""


@click.command(
    "eval",
    cls=Command,
    section="Accuracy",
    examples=("tpuc eval FILE images/", "tpuc eval net.onnx FILE images/ --preprocess imagenet-torch"),
)
@click.argument("models", metavar="[MODEL]... [DATASET]", nargs=-1, type=FILE)
@click.option("--model-file", "model_files", type=FILE, multiple=True, metavar="FILE", help="Same as MODEL.")
@click.option("--dataset", type=FILE, metavar="PATH", help="Same as DATASET.")
@click.option("--dataset-type", default="", metavar="NAME", help="imagenet, coco, voc, wider, yolo, or arrays.")
@click.option(
    "--metric", default="", metavar="NAME", help="top-k, coco, voc, auc, best-box, perplexity; by default the data's."
)
@click.option("--postprocess", default="", metavar="NAME", help="Kind of outputs: yolov5, ssd, scores, ...")
@click.option("--postprocess-type", default="", metavar="NAME", help="TPU-MLIR's --metric: topx or coco_mAP.")
@click.option("--label-file", type=FILE, metavar="FILE", help="Lines 'FILE INDEX', or class names in order.")
@click.option("--label-offset", type=int, default=0, show_default=True, help="Number to add to the labels.")
@click.option(
    "--annotation", "--coco-annotation", type=FILE, metavar="PATH", help="Annotations of the images: a file or folder."
)
@click.option("--count", type=COUNT, default=0, show_default=True, help="Number of samples to use; 0: all.")
@layout_option
@trust_option
@preprocess_options
@click.option(
    "--workers", type=POSITIVE, default=1, show_default=True, help="Worker processes; the figures are the same."
)
@click.option("--cluster", default="", metavar="ADDRESS", help="Address of a dask scheduler, instead of --workers.")
@click.option("--strict", is_flag=True, help="Stop at a sample that cannot be read.")
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
@pass_app
def command(
    app: App,
    models: tuple[Path, ...],
    model_files: tuple[Path, ...],
    dataset: Path | None,
    dataset_type: str,
    metric: str,
    postprocess: str,
    postprocess_type: str,
    label_file: Path | None,
    label_offset: int,
    annotation: Path | None,
    count: int,
    input_layout: str | None,
    trust: bool,
    preprocess: Mapping[str, Any],
    workers: int,
    cluster: str,
    strict: bool,
    as_json: bool,
) -> None:
    """Measure the accuracy of networks on labeled data.

    MODEL has any format that `tpuc run` executes; several networks are compared with the first one. DATASET is a folder
    of images, or an npz file of arrays.
    """
    words = list(models)
    if dataset is None and words:
        dataset = words.pop()
    paths = (*words, *model_files)
    if dataset is None or not paths:
        raise UsageError("no network or no data; give both, as in `tpuc eval MODEL DATASET`.")
    if metric and postprocess_type:
        raise UsageError("--metric and --postprocess-type are the same option; give one of them.")
    check_inputs(*paths, dataset, label_file, annotation)
    from tpuc_driver.api.host import open_pool

    from tpuc_eval.evaluation import evaluate
    from tpuc_eval.options import candidates, chosen_metric, configured, usual_type
    from tpuc_eval.protocols import DataRequest, ModelMetric, ModelRequest

    if metric and isinstance(own := chosen_metric(app.registry, metric), ModelMetric):
        _refuse_options(own.name)
        measured = own.measure(ModelRequest(paths, dataset, count, app.registry, app.progress))
        _show(app, own.name, paths, dataset, measured, as_json=as_json)
        return
    form = configured(app.registry, "tpuc.datasets", dataset_type or usual_type(dataset))
    judge = chosen_metric(app.registry, metric or postprocess_type or form.metric)
    samples = form.open(DataRequest(dataset, label_file, annotation, count, label_offset), app.remark)
    if refusal := judge.refuse(samples.truth(0)):
        raise UsageError(refusal)
    samples, note = _held_out(app, paths, samples)
    with open_pool(workers, cluster, app.registry) as pool:
        result = evaluate(
            _runnable(app, paths, preprocess, input_layout or "", trust),
            samples,
            judge,
            candidates(app.registry, postprocess or judge.postprocess),
            pool,
            dataset=str(dataset),
            is_named=bool(postprocess),
            strict=strict,
            progress=app.progress,
            remark=app.remark,
        )
    if as_json:
        app.result_json(result.to_json())
        return
    app.table(result.rows())
    app.result(f"{result.samples} samples of {result.dataset}{note}")


def _refuse_options(metric: str) -> None:
    """Raise UsageError for options that only labeled samples have."""
    context = click.get_current_context()
    for one in context.command.params:
        if one.name not in OF_MODELS and context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE:
            raise UsageError(f"{one.opts[0]} does not apply to metric '{metric}'; leave it out.")


def _show(
    app: App, metric: str, paths: Sequence[Path], dataset: Path, measured: ModelFigures, *, as_json: bool
) -> None:
    pairs = list(zip(map(str, paths), measured.figures, strict=True))
    if as_json:
        models = [{"model": path, "figures": dict(figures)} for path, figures in pairs]
        app.result_json({"dataset": str(dataset), "metric": metric, "samples": measured.samples, "models": models})
        return
    app.result(f"{measured.samples} of {dataset}")
    rows = [
        [path, *(f"{value:.4g}" if value < 1 else f"{value:,.3f}" for value in one.values())] for path, one in pairs
    ]
    app.table([["", *measured.figures[0]], *rows])


def _held_out(app: App, paths: Sequence[Path], samples: LabeledSamples) -> tuple[LabeledSamples, str]:
    """Return the samples that no network was calibrated on, or all if none remain; and a remark."""
    from tpuc_driver.api.host import Session

    from tpuc_eval.protocols import Chosen

    session = Session(app.registry)
    seen = frozenset[str]().union(*map(session.calibrated_on, paths))
    left = tuple(place for place in range(len(samples)) if not seen or samples.fingerprint(place) not in seen)
    if len(left) == len(samples):
        return samples, ""
    if not left:
        return samples, ", all used for calibration: expect lower accuracy on other data"
    return Chosen(samples, left), f" ({len(samples) - len(left)} more were used for calibration and left out)"


def _runnable(
    app: App, paths: Sequence[Path], preprocess: Mapping[str, Any], layout: str, trust: bool
) -> list[RunnableFile]:
    """Apply the image options only to networks that do not state their own preprocessing."""
    from tpuc_driver.api.host import Session

    from tpuc_eval.runnable import RunnableFile

    session = Session(app.registry)
    modules = [path for path in paths if session.describes_inputs(path)] if preprocess else []
    own: Mapping[str, Any] = preprocess
    if preprocess and modules and len(modules) < len(paths):
        app.remark(f"{', '.join(map(str, modules))}: preprocessing is stored in the file; the options are ignored")
        own = {}
    return [RunnableFile(path, app.registry, own if path in modules else preprocess, layout, trust) for path in paths]
