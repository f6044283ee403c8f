"""`tpuc reduce`: reduce a failing network to a minimal reproducer."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tpuc.api import UsageError
from tpuc_driver.api.command import (
    EMPTY,
    FILE,
    MODE,
    NUMBER,
    OUTPUT,
    SHAPES,
    App,
    Command,
    Shapes,
    check_inputs,
    check_writable,
    open_session,
    pass_app,
)

if TYPE_CHECKING:
    from tpuc_check.failure import Attempt
    from tpuc_check.subjects import Subject


@click.command(
    "reduce",
    cls=Command,
    section="Compile",
    examples=("tpuc reduce net.onnx --chip {chip} -o smallest.onnx",),
)
@click.argument("network", metavar="MODEL", type=FILE)
@click.option("--model-data", type=FILE, metavar="FILE", help="Weights of the network, if they are in a separate file.")
@click.option("--chip", help="Chip to compile for; by default, only import the network.")
@click.option(
    "--quantize", type=MODE, help="f32, f16, bf16, int8, int8-asym, ...; by default, network and chip decide."
)
@click.option("--input-shapes", type=SHAPES, default=EMPTY, help="Shapes of dynamic inputs: [[1,3,224,224]].")
@click.option(
    "--random-weights",
    is_flag=True,
    help="Replace the weights with random ones if it still fails, to keep yours private.",
)
@click.option("--command", "shell", metavar="TEXT", help="Command to run instead; {} is the network; fails unless 0.")
@click.option(
    "--seconds", type=NUMBER, default=60.0, show_default=True, help="Time limit of a run; exceeding it is a failure."
)
@click.option("-o", "--output", type=OUTPUT, required=True, metavar="FILE", help="The reduced network.")
@pass_app
def command(
    app: App,
    network: Path,
    model_data: Path | None,
    chip: str | None,
    quantize: str | None,
    input_shapes: Shapes,
    random_weights: bool,
    shell: str | None,
    seconds: float,
    output: Path,
) -> None:
    """Reduce a failing network to a minimal reproducer.

    An ONNX file gives an ONNX file; other formats, which must be importable, and .mlir files give a module. Every trial
    runs in a separate process, so crashes and hangs can be reduced too. With --command, any program decides whether a
    network fails, including for wrong values: by its exit code, and by its first line that begins with `tpuc: `, or
    else its last line, which must stay the same.
    """
    check_inputs(network, model_data)
    if shell is not None and "{}" not in shell:
        raise UsageError("--command: contains no {}; write {} in place of the network's file.")
    if shell is not None and chip is not None:
        raise UsageError("--command replaces the compilation; leave out --chip.")
    from tpuc_check.failure import Attempt, essence
    from tpuc_check.reduction import reduced

    subject = _subject(app, network, model_data, input_shapes)
    if output.suffix != subject.suffix:
        raise UsageError(f"{output}: the reduced {network.name} is written as {subject.suffix}; use that suffix.")
    check_writable(output)
    attempt = Attempt(chip, quantize, seconds, shell)
    everything = range(len(subject.parts))
    with tempfile.TemporaryDirectory() as folder:
        tries = _Tries(subject, attempt, Path(folder))
        wanted = tries.failure(everything)
        if wanted is None:
            raise UsageError(f"{network}does not fail; nothing to reduce.")
        app.remark(f"{len(everything)} nodes fail: {wanted}")
        same = essence(wanted)

        def fails(kept: Collection[int]) -> bool:
            said = tries.failure(kept)
            return said is not None and essence(said) == same

        kept = reduced(len(everything), fails)
        left = tries.failure(kept) or wanted
        draw = random_weights and essence(tries.failure(kept, random_weights=True) or "") == same
        if random_weights and not draw:
            app.remark("the failure depends on the weights; they are kept")
    subject.write(kept, output, random_weights=draw)
    names = ", ".join(subject.parts[index].name for index in kept[:8])
    app.result(f"{output}: {len(kept)} of {len(everything)} nodes ({names}) after {tries.count} tries")
    app.result(f"it fails with: {left.removeprefix('tpuc: ')}")


def _subject(app: App, network: Path, model_data: Path | None, input_shapes: Shapes) -> Subject:
    from tpuc_check.subjects import ModuleSubject, OnnxSubject

    if network.suffix.lower() == ".onnx":
        return OnnxSubject(network, input_shapes)
    session = open_session(app)
    if network.suffix.lower() == ".mlir":
        return ModuleSubject(session.load(network))
    return ModuleSubject(session.transform(network, model_data=model_data, input_shapes=input_shapes))


class _Tries:
    """Writes and tries parts of the network, each set of parts once."""

    def __init__(self, subject: Subject, attempt: Attempt, folder: Path) -> None:
        self._subject = subject
        self._attempt = attempt
        self._folder = folder
        self._known: dict[Any, str | None] = {}

    @property
    def count(self) -> int:
        """Number of different networks tried."""
        return len(self._known)

    def failure(self, kept: Collection[int], *, random_weights: bool = False) -> str | None:
        """Return the failure of the network with these parts."""
        key = (tuple(kept), random_weights)
        if key not in self._known:
            path = self._folder / f"reduced{self._subject.suffix}"
            self._subject.write(kept, path, random_weights=random_weights)
            self._known[key] = self._attempt.failure(path, self._subject.input_shapes(kept), self._folder)
        return self._known[key]
