"""Print warnings of libraries as remarks, each once."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager

from tpuc.warned import LeftOut, warning_sentence

from tpuc_driver.cli.app import App


@contextmanager
def warnings_as_remarks(app: App) -> Generator[None]:
    """Tell the warnings that come meanwhile as remarks of one line, without the place in our code that is no help."""
    printed: set[str] = set()

    def show(message: Warning | str, _category: object, filename: str, *_: object) -> None:
        text = warning_sentence(message, filename)
        if text not in printed:
            printed.add(text)
            app.remark(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.simplefilter("always", LeftOut)  # it is a remark, whatever becomes of the warnings of libraries
        yield
