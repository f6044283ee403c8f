"""Refuse to overwrite files that a command reads."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import click
from tpuc.errors import UsageError
from tpuc.files import weights_beside

from tpuc_driver.cli.values import OutputType


def check_outputs(command: click.Command, values: Mapping[str, Any]) -> None:
    """Raise UsageError when an output of a command line is an input or another output of it."""
    outputs: list[tuple[str, Path]] = []
    inputs: list[tuple[str, Path]] = []
    for parameter in command.params:
        is_output = isinstance(parameter.type, OutputType)
        for path in _paths(values.get(parameter.name or "")):
            (outputs if is_output else inputs).append((_label(parameter), path))
    for index, (label, path) in enumerate(outputs):
        _refuse_same(label, path, inputs, "input")
        _refuse_same(label, path, outputs[:index], "output")


def check_output(label: str, path: Path, others: Iterable[Path | None], kind: str = "input") -> None:
    """Raise UsageError when an output file is also an input, or of another `kind`."""
    _refuse_same(label, path, [("", other) for other in others if other is not None], kind)


@contextlib.contextmanager
def beside(output: Path, inputs: Sequence[Path] = ()) -> Generator[Path | None]:
    """Context manager: a temporary folder whose files move next to an output on success and are dropped on failure.
    None next to a device. Input files are never replaced.
    """
    if output.exists() and not output.is_file():
        yield None
        return
    with TemporaryDirectory(prefix=".tpuc-", dir=output.parent) as name:
        yield Path(name)
        for path in sorted(Path(name).iterdir()):
            target = output.parent / path.name
            if not any(_same(target, one) for one in inputs):
                path.replace(target)


def _refuse_same(label: str, path: Path, others: Iterable[tuple[str, Path]], kind: str) -> None:
    for other, source in others:
        if any(_same(one, two) for one in _with_weights(path) for two in _with_weights(source)):
            whose = f"{kind} {other}".rstrip()
            raise UsageError(f"{label} {path}: would overwrite {source}, the {whose}. Choose another name.")


def _with_weights(path: Path) -> tuple[Path, ...]:
    return (path, path.with_name(weights_beside(path))) if path.suffix.lower() == ".mlir" else (path,)


def _same(one: Path, other: Path) -> bool:
    """True for one file under both names; devices and folders may be both read and written."""
    if one.exists() and not one.is_file():
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _label(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return "" if parameter.nargs < 0 else parameter.metavar or parameter.human_readable_name


def _paths(value: Any) -> list[Path]:
    values = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    paths = [getattr(item, "path", item) for item in values]  # of data sets
    return [item for item in paths if isinstance(item, Path)]
