"""Errors at the border of the Python interface: those of the operating system become ours, options become arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from tpuc.errors import FileError, TpucError
from tpuc.files import reason, way_out

P = ParamSpec("P")
R = TypeVar("R")

_COMMAND = re.compile(r"(`tpuc [^`]*`)")
"""A command line, which stays as it is."""
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\b")
_ARGUMENTS: Mapping[str, str] = {
    "calibration_table": "table",
    "calibration_method": "method",
    "data_list": "samples",
    "dataset": "samples",
    "input": "inputs",
    "model_def": "network",
    "quantize": "mode",
}
"""Arguments of methods that are called otherwise than the options."""


def in_python(text: str) -> str:
    """A sentence with the names of arguments in place of options: `mode` for `--quantize`."""
    parts = _COMMAND.split(text)
    return "".join(part if place % 2 else _OPTION.sub(_argument, part) for place, part in enumerate(parts))


def _argument(match: re.Match[str]) -> str:
    name = match[1].replace("-", "_")
    return _ARGUMENTS.get(name, name)


def in_sentences(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function raise FileError, which names file, reason and way out, where it would raise OSError; errors name
    arguments, not options of the command line.
    """

    @functools.wraps(function)
    def called(*arguments: P.args, **settings: P.kwargs) -> R:
        try:
            return function(*arguments, **settings)
        except TpucError as error:
            _reword(error, in_python)
            raise
        except OSError as error:
            cause = reason(error)
            thing = error.filename if error.filename is not None else "a file"
            raise FileError(f"{thing}: {cause[:1].lower()}{cause[1:]}. {way_out(error)}") from error

    return called


@contextmanager
def calling_it(path: Path, name: str) -> Generator[None]:
    """Let errors call a temporary file by another name meanwhile."""
    try:
        yield
    except TpucError as error:
        _reword(error, lambda text: text.replace(str(path), name))
        raise


def _reword(error: TpucError, change: Callable[[str], str]) -> None:
    error.args = tuple(change(one) if isinstance(one, str) else one for one in error.args)
