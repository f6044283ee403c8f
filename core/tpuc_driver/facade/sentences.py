"""Errors of the Python interface: OSError becomes FileError, and options are named as arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from tpuc.errors import FileError, TpucError
from tpuc.files import reason, way_out

from tpuc_driver.facade.wording import for_python

P = ParamSpec("P")
R = TypeVar("R")


def in_sentences(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: raise FileError, with file, reason and way out, instead of OSError; messages name arguments, not
    command-line options.
    """

    @functools.wraps(function)
    def called(*arguments: P.args, **settings: P.kwargs) -> R:
        try:
            return function(*arguments, **settings)
        except TpucError as error:
            _reword(error, for_python)
            raise
        except OSError as error:
            cause = reason(error)
            thing = error.filename if error.filename is not None else "a file"
            raise FileError(f"{thing}: {cause[:1].lower()}{cause[1:]}. {way_out(error)}") from error

    return called


@contextmanager
def calling_it(path: Path, name: str) -> Generator[None]:
    """Context manager: replace the name of a temporary file in errors."""
    try:
        yield
    except TpucError as error:
        _reword(error, lambda text: text.replace(str(path), name))
        raise


def _reword(error: TpucError, change: Callable[[str], str]) -> None:
    error.args = tuple(change(one) if isinstance(one, str) else one for one in error.args)
