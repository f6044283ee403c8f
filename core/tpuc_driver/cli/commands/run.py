"""`tpuc run`: run a network in any format on inputs, and explain its outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tpuc.errors import TpucError, UsageError
from tpuc.files import check_writable, file_stem, write_atomic

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.cli.options import labels_option, layout_option, preprocess_options, trust_option
from tpuc_driver.cli.outputs import check_output
from tpuc_driver.cli.session import check_inputs, open_session
from tpuc_driver.cli.values import FILE, OUTPUT, PATHS, POSITIVE

if TYPE_CHECKING:
    from tpuc_driver.api.answers import Answer, Asked, RunSample
    from tpuc_driver.data import Labels
    from tpuc_driver.session import Session

ANSWERS, READERS = "tpuc.answers", "tpuc.readers"
LARGEST = 5


@click.command(
    "run",
    cls=Command,
    section="Run and measure",
    examples=("tpuc run --model FILE --input sample.npz -o answers.npz", "tpuc run FILE cat.jpg --labels imagenet"),
)
@click.argument("files", metavar="[MODEL] [INPUT]...", nargs=-1, type=FILE)
@click.option("--input", "inputs", type=PATHS, default=(), help="Same as INPUT: a.npz,b.npz.")
@click.option("--model", type=FILE, metavar="FILE", help="Same as MODEL.")
@click.option("-o", "--output", type=OUTPUT, metavar="FILE.npz", help="Write the results to a file.")
@click.option(
    "--save-inputs",
    type=OUTPUT,
    metavar="DIR",
    help="Write the raw bytes of every input, for programs on a board.",
)
@click.option("--network", metavar="NAME", help="Network to run, if the compiled file has several.")
@labels_option
@click.option("--postprocess", default="", metavar="NAME", help="Kind of outputs, as for `tpuc eval`: yolov5, ssd.")
@click.option("--draw", type=OUTPUT, metavar="FILE.png", help="Draw boxes or maps on the image; one file per image.")
@click.option("--every", type=POSITIVE, default=1, metavar="N", help="Take every N-th frame of a video.")
@click.option("--summary", is_flag=True, help="Show mean, deviation and NaN of every output.")
@layout_option
@trust_option
@preprocess_options
@click.option("--check-memory", is_flag=True, help="Refuse compiled files that read memory which nothing has written.")
@click.option("--dump-all-tensors", is_flag=True, help="Return every value of the network, not only its outputs.")
@pass_app
def command(
    app: App,
    files: tuple[Path, ...],
    inputs: tuple[Path, ...],
    model: Path | None,
    output: Path | None,
    save_inputs: Path | None,
    network: str | None,
    labels: Labels | None,
    postprocess: str,
    draw: Path | None,
    every: int,
    summary: bool,
    input_layout: str | None,
    trust: bool,
    preprocess: Mapping[str, Any],
    check_memory: bool,
    dump_all_tensors: bool,
) -> None:
    """Run a network on inputs and explain its outputs.

    MODEL is a network file, a .mlir module, or a compiled file. INPUT is an image, video, npz, or npy file, or a folder
    of them. Networks with several inputs take one npz file, or one INPUT for each. The command prints the best classes
    of an image, objects with their boxes, or the share of each class in a map; for other outputs, the range and the
    largest values. If a file takes quantized integers, integer arrays are used unchanged and floats are quantized.
    """
    if (summary or dump_all_tensors) and (draw is not None or postprocess):
        raise UsageError("--summary and --dump-all-tensors show values only; leave out --draw and --postprocess.")
    runnable, given = _split(files, model, inputs)
    check_inputs(runnable, *given)
    for path in (output, draw):
        if path is not None:
            check_output("--output" if path is output else "--draw", path, (runnable, *given))
            check_writable(path)
    if save_inputs is not None:
        _check_folder(save_inputs)
    _check_drawing(app, draw)
    session = open_session(app, input_layout=input_layout, trust=trust)
    if check_memory:
        _check_memory(session, runnable)
    from tpuc_driver.data import with_pictures
    from tpuc_driver.session.running import stacked

    frames = Path(click.get_current_context().with_resource(tempfile.TemporaryDirectory()))
    samples = with_pictures(given, frames, app.registry, every)
    each = session.run_each(
        runnable, samples, preprocess=preprocess, dump_all_tensors=dump_all_tensors, network=network
    )
    ran = [_frame_named(one, frames) for one in each]

    if save_inputs is not None:
        _save_inputs(save_inputs, ran)
    outputs = stacked([one.outputs for one in ran])
    shown: list[list[str]] = []
    if not (summary or dump_all_tensors):
        places = _drawings(draw, ran)
        shown = [_answers(app, one, labels, postprocess, place) for one, place in zip(ran, places, strict=True)]
    if not (shown and all(shown)):
        if postprocess or draw is not None:
            raise UsageError(
                f"{runnable}: no known post-processing fits its outputs; leave out --postprocess and --draw."
            )
        values = stacked([one.values for one in ran])
        _write(output, outputs)
        app.table(_summary(values) if summary else list(_listing(values, outputs)), has_head=summary)
        return
    _write(output, outputs)
    for one, lines in zip(ran, shown, strict=True):
        app.result("\n".join([f"{one.name}:", *lines] if len(ran) > 1 else lines))


def _check_memory(session: Session, path: Path) -> None:
    """Raise for a file that reads memory which nothing has written, or has no commands."""
    from tpuc.api.simulation import SimulatedModel

    if path.suffix.lower() == ".mlir" or session.is_network(path):
        raise UsageError(f"{path}: only compiled files have memory to check; leave out --check-memory.")
    file = session.opened(path)
    for place in range(len(file.entries)):
        loaded = file.container(place)
        if not isinstance(loaded, SimulatedModel):
            raise UsageError(f"{path}: this kind of file has no commands to check; leave out --check-memory.")
        loaded.check_memory()


def _frame_named(ran: RunSample, frames: Path) -> RunSample:
    """Name a video frame after the video and its number, not after its temporary file."""
    file = ran.files[0]
    if not file.is_relative_to(frames):
        return ran
    return replace(ran, name=f"{file.parent.name}, frame {int(file.stem)}")


def _check_drawing(app: App, draw: Path | None) -> None:
    """Raise UsageError for a file type that no installed reader opens as a picture."""
    from tpuc_driver.data import is_picture

    if draw is not None and app.registry.names(READERS) and not is_picture(app.registry, draw):
        raise UsageError(f"--draw {draw}: not the name of an image file; use {draw.with_suffix('.png').name}.")


def _write(output: Path | None, outputs: Mapping[str, Any]) -> None:
    if output is not None:
        from tpuc.npz import write_npz

        write_npz(output, outputs, is_ordered=True)


def _check_folder(folder: Path) -> None:
    """Raise UsageError if the path is taken."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--save-inputs {folder} exists and is not an empty folder; give a new one.")


def _save_inputs(folder: Path, ran: Sequence[RunSample]) -> None:
    """Write one file per input, `NAME.bin`; one folder per sample if there are several."""
    for number, one in enumerate(ran, 1):
        place = folder / str(number) if len(ran) > 1 else folder
        names = [file_stem(name) for name in one.stored]
        place.mkdir(parents=True, exist_ok=True)
        for index, (name, array) in enumerate(zip(names, one.stored.values(), strict=True)):
            own = name if names.count(name) == 1 else f"{name}-{index}"
            write_atomic(place / f"{own}.bin", array.tobytes())


def _split(files: Sequence[Path], model: Path | None, inputs: Sequence[Path]) -> tuple[Path, tuple[Path, ...]]:
    """Separate the network from its inputs, in any order."""
    if model is None and not files:
        raise UsageError("no network to run; give one, as in `tpuc run MODEL INPUT...`.")
    network, given = (files[0], files[1:]) if model is None else (model, files)
    if not (given or inputs):
        raise UsageError(f"{network}: no input to run it on; give one after it: an image, npz, npy or folder.")
    return network, (*given, *inputs)


def _drawings(draw: Path | None, ran: Sequence[RunSample]) -> list[Path | None]:
    """The files to draw into; each of several pictures gets one named after it, numbered where names recur."""
    if draw is None or len(ran) == 1:
        return [draw] * len(ran)
    stems = [one.files[0].stem for one in ran]
    names = [stem if stems.count(stem) == 1 else f"{number}-{stem}" for number, stem in enumerate(stems, 1)]
    return [draw.with_name(f"{draw.stem}-{name}{draw.suffix}") for name in names]


def _answers(app: App, ran: RunSample, labels: Labels | None, postprocess: str, draw: Path | None) -> list[str]:
    """The plugins' answers for the outputs; empty where none recognizes them."""
    from tpuc_driver.api.answers import Asked

    asked = Asked(app.registry, labels, postprocess, draw)
    found = (_lines(app, answer, ran, asked) for _, answer in app.registry.usable(ANSWERS))
    return [line for lines in found for line in lines]


def _lines(app: App, answer: type[Answer], ran: RunSample, asked: Asked) -> Sequence[str]:
    """The lines of one answer; if it raises, a remark says so and the next one is tried."""
    from tpuc_driver.blame import Blame

    try:
        return answer().lines(ran, asked) or ()
    except TpucError:
        raise
    except Exception as error:
        blamed = Blame(app.registry.offers).explain(error)
        if blamed is None:
            raise
        app.remark(f"left out: {blamed}")
        return ()


def _listing(meant: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Name, shape, stored type, range and largest values of every output."""
    import numpy as np

    for name, values in meant.items():
        flat, dtype = values.reshape(-1), str(stored[name].dtype)
        best = np.argsort(-flat.astype(np.float64), kind="stable")[:LARGEST]
        places: list[Any] = [np.unravel_index(one, values.shape) for one in best]
        largest = ", ".join(
            f"{flat[one]:.6g} at {','.join(map(str, place))}" for one, place in zip(best, places, strict=True)
        )
        ends = f"[{flat.min():.6g}, {flat.max():.6g}]" if flat.size else ""
        yield name, "x".join(map(str, values.shape)), dtype, ends, f"largest {largest}" if values.ndim else ""


def _summary(meant: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of statistics of every output."""
    import numpy as np

    rows: list[tuple[str, ...]] = [("", "shape", "mean", "std", "min", "max", "NaN")]
    for name, values in meant.items():
        numbers = values[~np.isnan(values)].astype(np.float64)
        figures = (numbers.mean(), numbers.std(), numbers.min(), numbers.max()) if numbers.size else (np.nan,) * 4
        shape = "x".join(map(str, values.shape))
        rows.append((name, shape, *(f"{one:.6g}" for one in figures), str(values.size - numbers.size)))
    return rows
